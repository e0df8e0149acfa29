"""``python -m devices``: the same as ``fake-devices``, where pip's scripts folder is not on the PATH."""

from devices.cli import main

if __name__ == "__main__":
    main(prog_name="fake-devices")
