"""The whole protocol: the SDK's server, with our tools, prompts, resources and subscriptions behind its handlers."""
