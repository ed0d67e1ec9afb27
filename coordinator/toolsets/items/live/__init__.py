"""What runs in processes beside the calls.

``waiting`` holds parked claims, ``polled_waits`` claims that wait as tasks, ``expiring`` puts back what has ended by
time, and ``metrics`` measures items for ``/metrics``.
"""
