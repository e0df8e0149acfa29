"""Where each built-in program lives: ``module:function``, imported when first run (pure)."""

from cri_fake.process.images import BUSYBOX_APPLETS

__all__ = ["MODULES"]

_SHELL = "sh=sh ash=sh"
_SIMPLE = """
sleep usleep pause true false echo printf test [=test [[=test yes seq env printenv date
uname hostname nproc uptime kill killall pkill=killall pidof pgrep=pidof ps timeout busybox
nohup setsid=nohup time=time_command
"""
_FILEOPS = """
touch rm rmdir mkdir chmod chown chgrp=chown cp mv ln link=ln unlink mktemp truncate dd sync mkfifo
mknod=mkfifo mount
"""
_READING = """
cat tac ls stat head tail wc readlink realpath basename dirname pwd which md5sum sha1sum sha256sum
sha512sum du df free cmp diff nl base64 more=cat less=cat
"""
_TEXT = """
sort uniq cut tr tee rev paste fold shuf split od hexdump=od expr
"""
_TERMINAL = "id=identity whoami logname=whoami groups tty stty"
_NETWORK = "nc wget httpd nslookup ping"

_BY_MODULE = {
    "shell.main": _SHELL,
    "applets.simple": _SIMPLE,
    "applets.fileops": _FILEOPS,
    "applets.reading": _READING,
    "applets.network": _NETWORK,
    "applets.terminal": _TERMINAL,
    "applets.text": _TEXT,
    "applets.grep": "grep egrep=grep fgrep=grep",
    "applets.find": "find xargs",
    "applets.sed": "sed",
    "applets.awk": "awk",
    "applets.columns": "expand unexpand factor xxd",
    "applets.archive": "tar",
    "applets.system": "top netstat ip who umount renice",
    "servers.agnhost": "agnhost",
    "servers.pages": "nginx httpd-foreground=httpd_foreground docker-entrypoint=docker_entrypoint",
}

MODULES: dict[str, str] = {}
for _name in BUSYBOX_APPLETS:
    MODULES[_name] = "applets.simple:not_emulated"
for _module, _names in _BY_MODULE.items():
    for _entry in _names.split():
        _name, _, _function = _entry.partition("=")
        MODULES[_name] = f"{_module}:{_function or _name}"
