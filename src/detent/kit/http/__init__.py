"""What addresses of the API are built on: routes, streams, and the server they work in."""
