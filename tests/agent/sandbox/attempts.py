"""What a command might try in a sandbox: one statement each, harmless where it worked, and only ever run inside.

What `WORKSPACE` holds may be done where the workspace is shown writable. An attempt is held when it raises OSError, or
AssertionError where it would see something. `ws`, `home` and `store` are folders outside, `pid` the process that
started the sandbox, `tcp` and `udp` ports and `abstract` a name somebody outside listens at, `canary` a word in the
environment of the processes above.
"""

from __future__ import annotations

from foregate.agent.sandbox.system_calls import number_of

WORKSPACE = {
    "create a file in the workspace": "open(ws + '/new', 'w')",
    "overwrite a file": "open(ws + '/README.md', 'w')",
    "append to a file": "open(ws + '/README.md', 'a')",
    "truncate a file": "os.truncate(ws + '/README.md', 0)",
    "rename a file": "os.rename(ws + '/src/main.py', ws + '/src/x.py')",
    "make a folder": "os.mkdir(ws + '/folder')",
    "remove a folder": "os.rmdir(ws + '/empty')",
    "make a link": "os.symlink('/', ws + '/link')",
    "change a mode": "os.chmod(ws + '/README.md', 0o600)",
    "change times": "os.utime(ws + '/README.md', (0, 0))",
    "change an owner": "os.chown(ws + '/README.md', os.getuid(), os.getgid())",
    "set an attribute": "os.setxattr(ws + '/README.md', 'user.x', b'x')",
    "write into .git": "open(ws + '/.git/config', 'a')",
    "delete a file": "os.unlink(ws + '/README.md')",
}
FILES = {
    "make a hard link": "os.link(ws + '/README.md', '/tmp/hard')",
    "write to a program": "open('/usr/bin/env', 'r+b')",
    "write into /etc": "open('/etc/foregate-test', 'w')",
    "write into the root": "open('/foregate-test', 'w')",
    "write into /dev": "open('/dev/foregate-test', 'w')",
    "change the mode of /dev/null": "os.chmod('/dev/null', 0o666)",
    "change the mode of /dev/null by stream": "os.fchmod(0, 0o666)",
    "set the name of the machine": "open('/proc/sys/kernel/hostname', 'w')",
    "open a setting of the kernel": "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)",
    "open sysrq": "os.open('/proc/sysrq-trigger', os.O_WRONLY)",
    "open memory by /proc": "os.open('/proc/kcore', os.O_RDONLY)",
    "write to who reads a named pipe": "os.open(ws + '/pipe', os.O_WRONLY | os.O_NONBLOCK)",
    "make a device": "os.mknod('/tmp/null', 0o20666, os.makedev(1, 3))",
    "make a device in the workspace": "os.mknod(ws + '/null', 0o20666, os.makedev(1, 3))",
    "make a whiteout in the workspace": "os.mknod(ws + '/none', 0o20000, 0)",
    "fill the scratch space": "open('/tmp/big', 'wb').write(bytes(10 << 20))",
}
SECRETS = {
    "read shadow": "open('/etc/shadow').read()",
    "see HOME": "assert os.listdir(home) != ['mine']",
    "read a key of HOME": "open(home + '/.ssh/id').read()",
    "read a masked file": "open(ws + '/.env').read()",
    "see a masked file": "assert '.env' in os.listdir(ws), 'absent'",
    "see a masked folder": "os.listdir(ws + '/conf/secrets')",
    "name a masked file anew": "os.link(ws + '/.env', ws + '/env')",
    "exchange a masked file": "call(renameat2, -100, (ws + '/.env').encode(), -100, (ws + '/data.json').encode(), 2)",
    "mark a folder as whole": "os.setxattr(ws + '/conf', 'trusted.overlay.opaque', b'y')",
    "see a masked folder in one that was marked": (
        "os.setxattr(ws + '/conf', 'user.overlay.opaque', b'y'); os.listdir(ws + '/conf/secrets')"
    ),
    "see a masked folder in one that was renamed": (
        "os.rename(ws + '/conf', ws + '/c2'); os.listdir(ws + '/c2/secrets')"
    ),
    "see where what is written is held": "os.listdir(store)",
    "read a key by its descriptor's path": "open('/proc/self/root' + ws + '/.env').read()",
    "read the environment of the first process": "open('/proc/1/environ').read()",
    "read the memory of the first process": "open('/proc/1/mem', 'rb')",
    "look through the root of the first process": "os.listdir('/proc/1/root/')",
    "see the starter": "open(f'/proc/{pid}/environ').read()",
    "find the canary in any process": (
        "assert any(canary in open(f'/proc/{p}/environ').read()"
        " for p in os.listdir('/proc') if p.isdigit() and p != '1')"
    ),
    "find a descriptor from outside": "assert len(os.listdir('/proc/self/fd')) > 4, 'none'",
    "signal the starter": "os.kill(pid, 0)",
    "open the terminal": "os.open('/dev/tty', os.O_RDWR)",
    "see the machine's devices": "os.listdir('/sys')",
    "see sockets of services": "os.listdir('/run')",
}
NETWORK = {
    "connect by TCP": "socket.create_connection(('127.0.0.1', tcp), 5)",
    "be answered by UDP": (
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', udp)); s.send(b'x'); s.recv(1)"
    ),
    "send to the network": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', udp))",
    "connect over IPv6": "socket.create_connection(('::1', tcp), 5)",
    "connect to a socket in the workspace": "socket.socket(socket.AF_UNIX).connect(ws + '/socket')",
    "connect to an abstract socket": "socket.socket(socket.AF_UNIX).connect(abstract)",
    "turn a pair of streams": "socket.socketpair()[0].connect(ws + '/socket')",
    "turn a pair of datagrams": (
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', ws + '/datagrams')"
    ),
    "speak to the hypervisor": "socket.socket(40, socket.SOCK_STREAM)",
    "read packets": "socket.socket(17, socket.SOCK_RAW)",
    "send raw": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "listen to the kernel": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)",
    "speak to the crypto of the kernel": "socket.socket(38, socket.SOCK_SEQPACKET)",
}
# By name, with the first arguments; a call that got through would fail with another errno than EPERM.
CALLS = {
    "unshare": "0x10000000",
    "setns": "0, 0",
    "mount": "b'x', b'/tmp', b'tmpfs', 0, 0",
    "umount2": "b'/tmp', 2",
    "pivot_root": "b'.', b'.'",
    "chroot": "b'/'",
    "open_tree": "-100, b'/', 1",
    "open_tree_attr": "-100, b'/', 1, 0, 0",
    "move_mount": "-1, b'', -1, b'', 0",
    "fsopen": "b'tmpfs', 0",
    "fsconfig": "-1, 0, 0, 0, 0",
    "fsmount": "-1, 0, 0",
    "mount_setattr": "-1, b'', 0, 0, 0",
    "clone": "0x10000011, 0, 0, 0, 0",
    "ptrace": "16, 1, 0, 0",
    "process_vm_readv": "1, 0, 0, 0, 0, 0",
    "pidfd_getfd": "-1, 0, 0",
    "keyctl": "0, -3, 0",
    "add_key": "0, 0, 0, 0, 0",
    "bpf": "0, 0, 0",
    "io_uring_setup": "1, 0",
    "userfaultfd": "0",
    "perf_event_open": "0, 0, -1, -1, 0",
    "open_by_handle_at": "-1, 0, 0",
    "init_module": "0, 0, b''",
    "kexec_load": "0, 0, 0, 0",
    "reboot": "0, 0, 0, 0",
    "ioctl": "1, 0x5412, 0",
}

# What only a sandbox that shares the machine's processes, memory and mounts has to hold.
LIMITED = {
    "list the processes": "os.listdir('/proc')",
    "read the command line of the starter": "open(f'/proc/{pid}/cmdline').read()",
    "read the environment of the parent": "open(f'/proc/{os.getppid()}/environ').read()",
    "signal the parent": "os.kill(os.getppid(), 0)",
    "signal the group of the parent": "os.killpg(os.getpgid(os.getppid()), 0)",
    "aim signals at the starter": "fcntl.fcntl(0, fcntl.F_SETOWN, pid)",
    "bound the starter": "resource.prlimit(pid, resource.RLIMIT_CORE, resource.prlimit(pid, resource.RLIMIT_CORE))",
    "slow the starter down": "os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid))",
    "slow the user down": "os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_USER, 0))",
    "move the starter": "os.sched_setaffinity(pid, os.sched_getaffinity(pid))",
    "make memory others can open": f"call({number_of('shmget')}, 0, 4096, 0o1600)",
    "make a queue others can open": f"call({number_of('mq_open')}, b'foregate-test', 0o102, 0o600, 0)",
    "watch a folder outside": f"call({number_of('inotify_init1')}, 0)",
    "keep others from opening a file": "fcntl.fcntl(os.open(ws + '/README.md', os.O_RDONLY), fcntl.F_SETLEASE, 0)",
    "empty a file that is opened for reading": "os.open(ws + '/README.md', os.O_RDONLY | os.O_TRUNC)",
    "empty a file that is opened for nothing": "os.open(ws + '/README.md', 3 | os.O_TRUNC)",
    "change the flags of a file": (
        "fcntl.ioctl(os.open(ws + '/README.md', os.O_RDONLY), 0x40086602, b'\\x40' + bytes(7))"
    ),
    "change the mode of a file that is read": "os.fchmod(os.open(ws + '/README.md', os.O_RDONLY), 0o600)",
    "change the times of a file that is read": "os.utime(os.open(ws + '/README.md', os.O_RDONLY))",
    "set an attribute of a file that is read": "os.setxattr(os.open(ws + '/README.md', os.O_RDONLY), 'user.x', b'x')",
    "write into the shared /tmp": "open('/tmp/foregate-test', 'w')",
    "see the private folders of other calls": "os.listdir(os.environ['HOME'] + '/../..')",
    "bring a file out of a private folder": "os.rename(os.environ['HOME'] + '/mine', ws + '/mine')",
    "hold a private link to a file": "os.link(ws + '/README.md', os.environ['HOME'] + '/hard')",
    "read a key by a private link": (
        "os.symlink(home + '/.ssh/id', os.environ['HOME'] + '/key'), open(os.environ['HOME'] + '/key').read()"
    ),
    "fill the private folder": "open(os.environ['HOME'] + '/big', 'wb').write(bytes(20 << 20))",
    "make a device in the private folder": "os.mknod(os.environ['HOME'] + '/null', 0o20666, os.makedev(1, 3))",
}

RUNNER = """
import ctypes, errno, fcntl, json, os, resource, signal, socket, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
values = json.loads(sys.argv[1])
library = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    passed = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    if library.syscall(ctypes.c_long(number), *passed) < 0:
        raise OSError(ctypes.get_errno(), errno.errorcode[ctypes.get_errno()])
open(os.environ['HOME'] + '/mine', 'w').close()
results = {}
for name, statement in json.loads(sys.argv[2]).items():
    try:
        exec(statement, {**globals(), **values})
        results[name] = 'DONE'
    except OSError as error:
        results[name] = errno.errorcode[error.errno]
    except AssertionError as error:
        results[name] = 'HELD'
print(json.dumps(results))
"""
