package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// KernelOrigin is the origin of kernel messages in the log.
const KernelOrigin = "kernel"

// kmsgRecord is one record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg).
type kmsgRecord struct {
	facility int
	level    Level
	seq      uint64
	at       time.Duration
	text     string
}

// parseKmsg reads "6,339,5140900,-;text\n KEY=value\n". The key-value lines
// repeat what the text says and are left out.
func parseKmsg(s string) (kmsgRecord, error) {
	head, text, ok := strings.Cut(s, ";")
	fields := strings.Split(head, ",")
	if !ok || len(fields) < 3 {
		return kmsgRecord{}, errors.New("parse kernel record: no header")
	}
	prio, err1 := strconv.ParseUint(fields[0], 10, 32)
	seq, err2 := strconv.ParseUint(fields[1], 10, 64)
	usec, err3 := strconv.ParseInt(fields[2], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return kmsgRecord{}, fmt.Errorf("parse kernel record: %w", err)
	}
	// Uptimes beyond a century are no uptimes, and would overflow.
	const century = 100 * 365 * 24 * 3600 * int64(1e6)
	usec = min(max(usec, 0), century)
	text, _, _ = strings.Cut(text, "\n")
	text = strings.ReplaceAll(text, `\x0a`, "\n") // a multi-line message, escaped by the kernel
	return kmsgRecord{
		facility: int(prio >> 3), level: syslogLevel(int(prio & 7)), seq: seq,
		at: time.Duration(usec) * time.Microsecond, text: text,
	}, nil
}

// syslogLevel maps a syslog severity. Emergencies are errors here: the crash
// lane is init's own, and any process may write <0> to /dev/kmsg.
func syslogLevel(severity int) Level {
	switch {
	case severity <= 3:
		return Error
	case severity == 4:
		return Warn
	case severity <= 6:
		return Info
	default:
		return Debug
	}
}

// KernelThreshold is the least level of kernel messages that belongs on
// consoles by the kernel's command line; as in the kernel, the last of quiet,
// debug and loglevel= counts. Errors always belong there.
//
// quiet is loglevel=4 (CONSOLE_LOGLEVEL_QUIET), so it leaves warnings out. Those
// of a healthy boot are many and tell an operator nothing: of MTRRs, of the
// TSC, and one of an underflow each time that a UART is taken from the kernel,
// which had it as a console before it had it as a device
// (drivers/tty/serial/8250/8250_port.c, serial8250_console_exit).
func KernelThreshold(cmdline string) Level {
	least := Info
	for _, word := range strings.Fields(cmdline) {
		switch {
		case word == "quiet":
			least = Error
		case word == "debug", word == "ignore_loglevel":
			least = Debug
		case strings.HasPrefix(word, "loglevel="):
			if n, err := strconv.Atoi(word[len("loglevel="):]); err == nil {
				// loglevel=N prints severities below N.
				least = syslogLevel(n - 1)
			}
		}
	}
	return least
}

// maxKmsg is the size of a read from /dev/kmsg: the kernel never hands out
// more than PRINTK_MESSAGE_MAX (2048) and answers EINVAL to a smaller buffer.
const maxKmsg = 8 << 10

// ReadKernel copies kernel records from r (OpenKmsg) into the log until ctx
// ends or reading fails. Records below least stay in the ring, and so do
// those older than since unless they are warnings: the kernel has printed
// them itself. Records that were overwritten before they were read are
// counted in a line of their own.
func ReadKernel(ctx context.Context, log *Log, r io.Reader, least Level, since time.Duration) error {
	defer context.AfterFunc(ctx, func() {
		if d, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok {
			d.SetReadDeadline(time.Unix(1, 0))
		}
	})()
	k := kernelLog{log: log, least: least, since: since}
	buf := make([]byte, maxKmsg)
	for ctx.Err() == nil {
		n, err := r.Read(buf)
		switch {
		case n > 0:
			k.take(string(buf[:n]))
		case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.EINTR):
			// EPIPE: overwritten meanwhile; the next read is the oldest left.
		case err == nil:
			return fmt.Errorf("read kernel log: %w", io.ErrNoProgress)
		case ctx.Err() == nil:
			return fmt.Errorf("read kernel log: %w", err)
		}
	}
	return ctx.Err()
}

type kernelLog struct {
	log   *Log
	least Level
	since time.Duration
	next  uint64 // sequence number that should come; 0 before the first
}

func (k *kernelLog) take(s string) {
	rec, err := parseKmsg(s)
	if err != nil {
		return // not a record: nothing in it could be shown
	}
	if k.next > 0 && rec.seq > k.next {
		k.log.Append(KernelOrigin, Warn, fmt.Sprintf("%d kernel messages were overwritten before they were read", rec.seq-k.next))
	}
	k.next = rec.seq + 1
	origin := KernelOrigin
	if rec.facility != 0 {
		origin = "kmsg" // written by a process
	}
	hidden := rec.level < k.least || rec.at < k.since && rec.level < Warn
	k.log.Add(Entry{At: rec.at, Origin: origin, Level: rec.level, Text: rec.text, RingOnly: hidden})
}
