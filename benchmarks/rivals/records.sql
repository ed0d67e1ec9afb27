-- The same work with the store's records: the answer to each request id, one claim per agent, an event per change, a
-- transition with its actor, and the cascade to a parent. One call is one statement, like one script of the store.
CREATE TABLE requests (id uuid PRIMARY KEY, fingerprint text NOT NULL, reply jsonb NOT NULL, expires timestamptz NOT NULL);
CREATE TABLE claims (agent text PRIMARY KEY, item uuid NOT NULL, expires timestamptz NOT NULL);
CREATE TABLE events (id bigserial PRIMARY KEY, kind text NOT NULL, item uuid NOT NULL, agent text, detail text,
  at timestamptz NOT NULL DEFAULT now());
CREATE TABLE transitions (id bigserial PRIMARY KEY, item uuid NOT NULL, from_role text NOT NULL, to_role text NOT NULL,
  trigger text NOT NULL, actor jsonb NOT NULL, at timestamptz NOT NULL DEFAULT now());
CREATE INDEX claims_by_expiry ON claims (expires);
CREATE INDEX open_children ON items (parent) WHERE role <> 'terminal';

CREATE FUNCTION claim(agent_name text, request uuid) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
  found items%ROWTYPE;
  answered jsonb;
BEGIN
  SELECT reply INTO answered FROM requests WHERE id = request;
  IF FOUND THEN RETURN (answered ->> 'id')::uuid; END IF;
  SELECT * INTO found FROM items WHERE role = 'queue' ORDER BY priority, complexity, created
   LIMIT 1 FOR UPDATE SKIP LOCKED;
  UPDATE items SET role = 'work', claimed_by = agent_name, claim_expires = now() + interval '15 minutes',
         fence = fence + 1 WHERE id = found.id;
  INSERT INTO claims VALUES (agent_name, found.id, now() + interval '15 minutes')
      ON CONFLICT (agent) DO UPDATE SET item = excluded.item, expires = excluded.expires;
  INSERT INTO events (kind, item, agent, detail) VALUES ('claim', found.id, agent_name, (found.fence + 1)::text);
  INSERT INTO requests VALUES (request, 'claim', jsonb_build_object('id', found.id, 'fence', found.fence + 1),
                               now() + interval '10 minutes');
  RETURN found.id;
END $$;

CREATE FUNCTION complete(agent_name text, request uuid, wanted uuid) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  found items%ROWTYPE;
  answered jsonb;
BEGIN
  SELECT reply INTO answered FROM requests WHERE id = request;
  IF FOUND THEN RETURN answered; END IF;
  SELECT * INTO found FROM items WHERE id = wanted AND claimed_by = agent_name FOR UPDATE;
  UPDATE items SET role = 'terminal', role_changed = now() WHERE id = wanted;
  INSERT INTO transitions (item, from_role, to_role, trigger, actor)
       VALUES (wanted, found.role, 'terminal', 'complete', jsonb_build_object('id', agent_name, 'kind', 'subagent'));
  INSERT INTO events (kind, item, agent, detail) VALUES ('transition', wanted, agent_name, 'complete');
  IF NOT EXISTS (SELECT FROM items WHERE parent = found.parent AND role <> 'terminal') THEN
    UPDATE items SET role = 'terminal', role_changed = now() WHERE id = found.parent;
  END IF;
  answered := jsonb_build_object('id', wanted, 'from', found.role, 'to', 'terminal');
  INSERT INTO requests VALUES (request, 'complete', answered, now() + interval '10 minutes');
  RETURN answered;
END $$;
