"""``python -m cri_fake``: the same as ``cri-fake``, where pip's scripts folder is not on the PATH."""

from cri_fake.cli import main

if __name__ == "__main__":
    main(prog_name="cri-fake")
