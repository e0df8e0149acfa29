"""Where each built-in program lives: ``module:function``, imported when first run (pure)."""

__all__ = ["MODULES"]

_SHELL = "sh=sh ash=sh"
_SIMPLE = """
sleep usleep pause true false echo printf test [=test [[=test yes seq env printenv date id=identity whoami
logname=whoami uname hostname nproc uptime kill killall pkill=killall pidof pgrep=pidof ps timeout busybox
nohup setsid=nohup awk=not_emulated vi=not_emulated tar=not_emulated telnet=not_emulated
"""
_FILEOPS = """
touch rm rmdir mkdir chmod chown chgrp=chown cp mv ln link=ln unlink mktemp truncate dd sync mkfifo
mknod=mkfifo mount
"""
_READING = """
cat tac ls stat head tail wc readlink realpath basename dirname pwd which md5sum sha1sum sha256sum
sha512sum du df free cmp nl base64
"""
_TEXT = """
sort uniq cut tr tee rev paste fold shuf split od hexdump=od expr
"""
_NETWORK = "nc wget httpd nslookup ping"

_BY_MODULE = {
    "shell.main": _SHELL,
    "applets.simple": _SIMPLE,
    "applets.fileops": _FILEOPS,
    "applets.reading": _READING,
    "applets.network": _NETWORK,
    "applets.text": _TEXT,
    "applets.grep": "grep egrep=grep fgrep=grep",
    "applets.find": "find xargs",
    "applets.sed": "sed",
}

MODULES: dict[str, str] = {}
for _module, _names in _BY_MODULE.items():
    for _entry in _names.split():
        _name, _, _function = _entry.partition("=")
        MODULES[_name] = f"{_module}:{_function or _name}"
