"""HTTP: the application, the limits of its protocol, and the checks of a request.

``app`` is the application. ``protocol`` limits the time and size of arriving requests, and the number of idle clients.
``authorization`` checks who is calling, and with which permissions; ``media`` negotiates media types, and ``cors``
decides which pages in browsers may read the answer. ``health`` answers probes and scrapes; ``admin`` serves these on a
separate port. ``welcome`` is the page for people who open the address.
"""
