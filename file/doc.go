// Package file keeps locks in a directory, for the processes of one host. It needs no server and no installation. It is
// the store for programs on one machine and for command lines.
//
// Keys are spread over 256 files, the buckets, by a hash of their names. A bucket contains the records of the keys that
// are held or waited for: the leases with their expiries and tokens, and the queue of waiters. Buckets change under the
// operating system's lock on the file (flock). A process holds that lock for some 10 µs, and the kernel releases it
// when the process dies. A lease itself needs no process: it expires at a time on the host's monotonic clock. A holder
// that is killed or stopped (SIGSTOP, a frozen container) blocks nobody for longer than its TTL. If the holder
// continues later, its lease is lost.
//
// # Guarantees
//
// Linearizable between all processes of the host, including containers that share the directory. A lease is never
// shorter than its TTL. Waiters are served in order of arrival: a process that releases a key notifies the first waiter
// in the queue through that waiter's FIFO (see mkfifo(3)), and skips dead ones. The first waiter is also notified when
// the holder makes its lease shorter. An idle waiter also reads the record about once a second (less often if hundreds
// wait before it), so that it depends on no other process. Fencing tokens rise across restarts of every process,
// reboots, and steps of the wall clock. They also rise across the loss of the directory, as long as the wall clock has
// not stepped back.
//
// A process needs one goroutine and one FIFO for each open Backend that has ever waited, and no open file for a lease.
// Each Backend keeps four descriptors open, so that renewals and releases work in a process that has no free
// descriptor. While few keys are held, the directory has at most 256 files of some 4 kB, however many keys were used.
// Keys that are free, or whose leases have run out, are dropped the next time their bucket is written. The next
// process that waits removes the FIFOs of killed processes.
//
// # Shared leases
//
// The record of a key has either one exclusive lease or any number of shared ones. Each shared lease has its own expiry
// and token. Readers and writers wait in one queue, in order of arrival. The shared waiters at the head of the queue
// are granted the key together: the process that makes room for them writes a lease for each. Until the waiter claims
// its lease, the lease is a reservation that lasts half a second, plus 2 ms for each reader beside it. A waiter that is
// stopped or killed at that moment delays the next writer by up to a second, or longer beside hundreds of readers, and
// no reader.
//
// If a waiting writer is cancelled, the readers behind it are granted the key at once. If its process is killed, they
// are granted the key when one of them polls, about a second later at most, or when another request for the key
// arrives. If a writer is stopped (SIGSTOP), it keeps its place. The readers behind it then wait until the leases
// before it have ended, and up to a second more.
//
// A request makes the same system calls as for an exclusive lease; with more than about 30 readers, it makes two more.
// It reads and writes all leases of its key, some 70 bytes for each reader.
//
// # Buckets
//
// A bucket's file is created when its first key is used, and is never removed. The file begins with a page of 4096
// bytes: a line that names the format, two slots for images of the bucket's state, and the mark of a broken lock. An
// image has a sequence number and a checksum. A new image overwrites the slot of the older image. If the new image is
// too long for a slot, it is written behind the page, where it does not overlap the newer image, and the slot contains
// its offset. Only the process that has the lock reads and writes. It reads the newest image whose checksum is correct,
// because an interrupted write damages only the older image.
//
// The bucket keeps the highest token that it has granted. The next token is that token plus one, or the wall clock's
// microseconds if those are more. So tokens increase even for keys without a record, and even if the directory is lost.
//
// Keys of one bucket share only its lock: each has its own queue. If two processes need a bucket in the same 10 µs, one
// retries after 20 µs, and then after random times of up to 2 ms, so that it never blocks in the kernel. There are so
// many buckets that 64 workers with their own keys rarely collide, and that each write is only some 4 kB even if 10 000
// leases are held.
//
// # The directory
//
// The store accepts a new or empty directory, and puts its mark there: the file .anylock, whose first line names the
// format. A directory that contains anything else is refused with ErrInvalid, and a directory of another format with
// ErrUnsupported: remove the directory while no program uses it, or name another one. In its own directory the store
// touches only its FIFOs and its buckets (bucket.00 to bucket.ff, and .next for a bucket that replaces another), which
// it recognizes by their first line. It does not touch other files. If another file has a bucket's name, the store
// refuses that file with ErrInvalid, and the error names it. Only an empty file, or one of zeros, is used as a new
// bucket, because a power failure may leave such a file.
//
// # Failure modes
//
//   - A process killed at any moment, even in the middle of a write, leaves the record as it was before or after the
//     write. A waiter that is killed or cancelled delays nobody, with one exception: if a lease expires while several
//     killed waiters are at the head of the queue, they delay the next one by up to a second. A waiter that is stopped
//     when its turn comes delays the next by up to a second. If several in a row are stopped, each does so.
//   - A process stopped while it has a bucket locked (which is unlikely: 10 µs for each operation) is detected after
//     200 ms, and its lock is broken: another file replaces the bucket's. If the process continues, its write has no
//     effect, and it repeats its operation. One case remains: a process that is stopped just while it breaks a lock
//     blocks the keys of that one bucket until it continues or is killed.
//   - A reboot ends all leases, so the store does not fsync them. A power failure may damage a bucket that was written
//     in the half minute before; its keys are refused with ErrInvalid until you remove the file, unless it is empty. If
//     the power failure also resets the clock, tokens may fall back by the half minute that had not reached the disk.
//   - The monotonic clock stops while the machine sleeps, for holders and the store alike: a lease then lasts longer by
//     the wall clock.
//   - On a full disk, keys whose bucket is new or has to grow are refused; an empty bucket file may be left. Held
//     leases are still renewed and released in place, as long as their bucket has few keys and short queues. A lease
//     that cannot be renewed is lost at its deadline. No lock is broken.
//   - A process without a free descriptor (EMFILE, ENFILE) still renews and releases its leases. New leases are refused
//     with that error.
//   - Removing files from the directory removes locks: keep /tmp cleaners away from it.
//   - LXC, Incus and systemd-nspawn give each container a boot id of its own. In a directory that such a container
//     uses, leases from before a reboot may keep their keys for up to their TTL after it.
//   - Network file systems are refused with ErrUnsupported. If two machines share a directory anyway (FUSE, virtiofs),
//     this is detected when both use one bucket: the machine that used it first refuses it from then on.
//
// # Sharing between users
//
// The directory is created with mode 0700. If it exists, its mode decides: if a group or everybody may write to it,
// they may use its locks, whatever the umask of the process. Give a shared directory the setgid bit (mode 2770) and no
// sticky bit: with a sticky bit only its owner can remove a file or break a lock.
//
// # URLs
//
//	file:///var/lib/myapp/locks    the directory /var/lib/myapp/locks
//
// The path is absolute; %20 and the like are decoded. The store has no parameters of its own.
//
// # Systems
//
// Linux, where it is tested, and macOS. On other systems it compiles, and Open returns ErrUnsupported.
package file
