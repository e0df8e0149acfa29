"""Programs of images that serve something: agnhost, nginx, httpd. Loaded when they are first run."""
