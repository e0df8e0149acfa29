"""``python -m kubelet_emu``: the same as the command ``kubelet-emu``."""

from kubelet_emu.cli.main import main

if __name__ == "__main__":
    main()
