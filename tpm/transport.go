package tpm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Transport carries commands to a TPM, one at a time.
type Transport interface {
	// Send writes one command and returns its whole response. It returns when
	// ctx is done, whatever the TPM does; after an error the Transport is dead.
	Send(ctx context.Context, command []byte) ([]byte, error)
	Close() error
}

// pollable is what *os.File (a TPM device) and *net.UnixConn (swtpm) share.
type pollable interface {
	io.WriteCloser
	syscall.Conn
	SetDeadline(time.Time) error
}

// maxResponse bounds a response: the kernel's TPM_BUFSIZE (drivers/char/tpm/tpm.h).
const maxResponse = 4096

// NewTransport speaks plain TPM frames over a pollable file or socket.
//
// go-tpm's own Linux transport polls without a timeout and fails on EINTR; here
// Go's poller does the waiting, so a deadline ends it and no thread is held.
func NewTransport(f pollable) Transport { return &fileTransport{f: f} }

type fileTransport struct {
	f    pollable
	dead error // set by the first failure: the stream's framing is lost
}

func (t *fileTransport) Send(ctx context.Context, command []byte) (_ []byte, err error) {
	if t.dead != nil {
		return nil, t.dead
	}
	defer func() {
		if err != nil {
			t.dead = err
		}
	}()
	if err := t.f.SetDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("set TPM deadline: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = t.f.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := t.f.Write(command); err != nil {
		return nil, fmt.Errorf("write TPM command: %w", deadlineCause(ctx, err))
	}
	rsp, err := t.receive()
	if err != nil {
		return nil, fmt.Errorf("read TPM response: %w", deadlineCause(ctx, err))
	}
	return rsp, nil
}

// receive reads one frame. A TPM device hands it over in one read, a socket
// perhaps in several.
func (t *fileTransport) receive() ([]byte, error) {
	raw, err := t.f.SyscallConn()
	if err != nil {
		return nil, err
	}
	buf := make([]byte, 0, maxResponse)
	for !wholeFrame(buf) {
		var n int
		var readErr error
		err := raw.Read(func(fd uintptr) bool {
			n, readErr = readReady(int(fd), buf[len(buf):cap(buf)])
			return !errors.Is(readErr, unix.EAGAIN)
		})
		if err = errors.Join(err, readErr); err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		buf = buf[:len(buf)+n]
	}
	return buf, nil
}

// readReady reads only what poll announces: a TPM device without a response
// returns 0 bytes instead of EAGAIN (tpm_common_read), as if at its end.
func readReady(fd int, p []byte) (int, error) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	if n == 0 || errors.Is(err, unix.EINTR) {
		return 0, unix.EAGAIN
	}
	if err != nil {
		return 0, err
	}
	for {
		n, err := unix.Read(fd, p)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

// wholeFrame tells whether b holds as much as its header announces (or can no
// longer grow: the parser then refuses it).
func wholeFrame(b []byte) bool {
	const headerLen = 10 // tag, size, code (TPM 2.0 part 1, 18.3)
	if len(b) < headerLen {
		return false
	}
	return len(b) == maxResponse || uint32(len(b)) >= binary.BigEndian.Uint32(b[2:])
}

// deadlineCause names the context's end instead of the poller's "i/o timeout".
func deadlineCause(ctx context.Context, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Close lets go of the TPM. A device whose command is still running holds
// close() until the kernel gives the command up (2 to 5 minutes, tpm2-cmd.c),
// so after a failure it is left to a goroutine.
func (t *fileTransport) Close() error {
	if t.dead != nil {
		go t.f.Close()
		return nil
	}
	return t.f.Close()
}
