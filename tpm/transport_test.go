package tpm

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"

	"reveille/internal/synctest"
)

// scripted answers each command with the next code; the last one for ever.
type scripted []tpm2.TPMRC

func (s *scripted) Send(context.Context, []byte) ([]byte, error) {
	rc := (*s)[0]
	if len(*s) > 1 {
		*s = (*s)[1:]
	}
	return []byte{0x80, 0x01, 0, 0, 0, 10, byte(rc >> 24), byte(rc >> 16), byte(rc >> 8), byte(rc)}, nil
}

func (*scripted) Close() error { return nil }

func over(ctx context.Context, tr Transport) conn {
	return conn{ctx, &TPM{t: tr, timeout: commandTimeout}}
}

var someCommand = []byte{0x80, 0x01, 0, 0, 0, 10, 0, 0, 0x01, 0x7B}

func TestRetriesAreBounded(t *testing.T) {
	for _, rc := range []tpm2.TPMRC{tpm2.TPMRCRetry, tpm2.TPMRCYielded, tpm2.TPMRCTesting, tpm2.TPMRCNVRate, tpm2.TPMRCNVUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			_, err := over(t.Context(), &scripted{rc}).Send(someCommand)
			if OutcomeOf(err) != Unresponsive || !errors.Is(err, rc) {
				t.Errorf("%v for ever: got %v", rc, err)
			}
			if d := time.Since(start); d < retryBudget || d > retryBudget+time.Second {
				t.Errorf("%v for ever: gave up after %v", rc, d)
			}
		})
	}
}

func TestRetryEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := over(ctx, &scripted{tpm2.TPMRCRetry}).Send(someCommand)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

func TestInitializeForEver(t *testing.T) {
	_, err := over(t.Context(), &scripted{tpm2.TPMRCInitialize}).Send(someCommand)
	if err != nil {
		t.Fatal(err) // the code goes to the caller, once; no loop
	}
}

func TestMalformedResponses(t *testing.T) {
	for _, b := range [][]byte{{}, {0x80}, {0x80, 1, 0, 0, 0, 11, 0, 0, 0, 0}, make([]byte, 10)} {
		if _, err := responseCode(b); OutcomeOf(err) != Unresponsive {
			t.Errorf("%x: got %v", b, err)
		}
	}
	if _, err := responseCode([]byte{0x00, 0xC4, 0, 0, 0, 10, 0, 0, 0, 10}); OutcomeOf(err) != Version12 {
		t.Errorf("TPM 1.2: got %v", err)
	}
}

// socketPair is a transport and the TPM's end of it.
func socketPair(t *testing.T) (Transport, net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		t.Cleanup(func() { ends[i].Close() })
	}
	return NewTransport(ends[0].(*net.UnixConn)), ends[1]
}

func TestTransportJoinsFragments(t *testing.T) {
	tr, far := socketPair(t)
	go func() {
		buf := make([]byte, 64)
		far.Read(buf)
		for _, b := range []byte{0x80, 1, 0, 0, 0, 12, 0, 0, 0, 0, 0xCA, 0xFE} {
			far.Write([]byte{b})
		}
	}()
	rsp, err := tr.Send(t.Context(), someCommand)
	if err != nil || len(rsp) != 12 || rsp[11] != 0xFE {
		t.Errorf("got %x, %v", rsp, err)
	}
}

func TestTransportThatNeverReplies(t *testing.T) {
	tr, _ := socketPair(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Millisecond, errors.New("no answer"))
	defer cancel()
	if _, err := tr.Send(ctx, someCommand); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("got %v", err)
	}
	if _, err := tr.Send(t.Context(), someCommand); err == nil {
		t.Error("used again after its stream was lost")
	}
}

func TestTransportClosedByTheTPM(t *testing.T) {
	tr, far := socketPair(t)
	far.Close()
	if _, err := tr.Send(t.Context(), someCommand); err == nil {
		t.Error("no error")
	}
}

func newSystem(t *testing.T) system { return system{sys: t.TempDir(), dev: t.TempDir()} }

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenWithoutTPM(t *testing.T) {
	short := Options{Wait: time.Millisecond}
	s := newSystem(t)
	if _, err := s.open(t.Context(), short); OutcomeOf(err) != Missing {
		t.Errorf("nothing there: got %v", err)
	}
	put(t, filepath.Join(s.sys, "firmware/acpi/tables/TPM2"), "")
	if _, err := s.open(t.Context(), short); OutcomeOf(err) != Unresponsive || !strings.Contains(err.Error(), "firmware announces a TPM") {
		t.Errorf("announced only: got %v", err)
	}
	put(t, filepath.Join(s.sys, "class/tpm/tpm0/tpm_version_major"), "1\n")
	if _, err := s.open(t.Context(), short); OutcomeOf(err) != Version12 {
		t.Errorf("TPM 1.2: got %v", err)
	}
}

func TestOpenEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newSystem(t).open(ctx, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestLateDeviceIsFound(t *testing.T) {
	s := newSystem(t)
	go func() {
		time.Sleep(3 * waitStep)                                // the driver probes
		_ = syscall.Mkfifo(filepath.Join(s.dev, "tpm0"), 0o600) // opens like a device
	}()
	f, err := s.device(t.Context(), "", 10*time.Second)
	if err != nil || f == nil || filepath.Base(f.Name()) != "tpm0" {
		t.Fatalf("got %v, %v", f, err)
	}
	f.Close()
}
