"""Controllers that know what is to come: bounds for what can be reached, never to be deployed."""
