// Package tpmtest gives tests software TPMs, and transports that misbehave.
package tpmtest

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"reveille/tpm"
)

// startTimeout is for a loaded machine; swtpm serves within 20 ms.
const startTimeout = 10 * time.Second

// SWTPM is a running swtpm. Its state outlives Restart.
type SWTPM struct {
	tb     testing.TB
	args   []string
	dir    string
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// Start runs a TPM 2.0 with a fresh state until the test ends.
func Start(tb testing.TB) *SWTPM {
	tb.Helper()
	return start(tb, tb.TempDir(), "--tpm2")
}

// StartSHA1 is Start with a TPM whose only bank is SHA-1, as some firmware
// leaves it.
func StartSHA1(tb testing.TB) *SWTPM {
	tb.Helper()
	dir := tb.TempDir()
	setup := exec.Command("swtpm_setup", "--tpm2", "--tpmstate", dir, "--pcr-banks", "sha1", "--overwrite")
	if out, err := setup.CombinedOutput(); err != nil {
		tb.Fatalf("set up swtpm: %v\n%s", err, out)
	}
	return start(tb, dir, "--tpm2")
}

// Start12 is Start with a TPM of the family 1.2.
func Start12(tb testing.TB) *SWTPM {
	tb.Helper()
	return start(tb, tb.TempDir())
}

func start(tb testing.TB, dir string, args ...string) *SWTPM {
	tb.Helper()
	s := &SWTPM{tb: tb, dir: dir, args: args}
	s.run()
	tb.Cleanup(s.stop)
	return s
}

func (s *SWTPM) socket() string { return filepath.Join(s.dir, "sock") }

// run starts the process. It does no startup by itself: the TPM answers
// TPM_RC_INITIALIZE first, as one whose firmware forgot it.
func (s *SWTPM) run() {
	s.tb.Helper()
	args := append([]string{"socket", "--tpmstate", "dir=" + s.dir, "--server", "type=unixio,path=" + s.socket(), "--flags", "not-need-init"}, s.args...)
	s.cmd = exec.Command("swtpm", args...)
	s.cmd.Stderr = &s.stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatalf("start swtpm (install it: make deps): %v", err)
	}
}

func (s *SWTPM) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = os.Remove(s.socket())
}

// Restart is a power cycle: all registers are back at their reset values.
func (s *SWTPM) Restart() {
	s.tb.Helper()
	s.stop()
	s.run()
}

// Signal sends a signal to swtpm: SIGSTOP makes a TPM that never answers.
func (s *SWTPM) Signal(sig syscall.Signal) {
	s.tb.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.tb.Fatalf("signal swtpm: %v", err)
	}
}

// Dial connects to the TPM; it serves one connection at a time.
func (s *SWTPM) Dial() tpm.Transport {
	s.tb.Helper()
	for deadline := time.Now().Add(startTimeout); ; {
		c, err := net.Dial("unix", s.socket())
		if err == nil {
			return tpm.NewTransport(c.(*net.UnixConn))
		}
		if time.Now().After(deadline) {
			s.tb.Fatalf("dial swtpm: %v\n%s", err, s.stderr.String())
		}
		time.Sleep(5 * time.Millisecond) // polling for the socket's appearance
	}
}

// Open returns the TPM as a node's agent has it, until the test ends or it is closed.
func (s *SWTPM) Open() *tpm.TPM {
	s.tb.Helper()
	t, err := tpm.New(s.tb.Context(), s.Dial(), tpm.Options{})
	if err != nil {
		s.tb.Fatalf("open swtpm: %v", err)
	}
	s.tb.Cleanup(func() { _ = t.Close() })
	return t
}

// Raw runs commands of go-tpm on a connection of its own.
func (s *SWTPM) Raw(f func(transport.TPM) error) {
	s.tb.Helper()
	tr := s.Dial()
	defer tr.Close()
	raw := rawTPM{s.tb.Context(), tr}
	_, err := tpm2.Startup{StartupType: tpm2.TPMSUClear}.Execute(raw)
	if err == nil || err == tpm2.TPMRCInitialize {
		err = f(raw)
	}
	if err != nil {
		s.tb.Fatal(err)
	}
}

type rawTPM struct {
	ctx context.Context
	t   tpm.Transport
}

func (r rawTPM) Send(b []byte) ([]byte, error) { return r.t.Send(r.ctx, b) }

// Extend is firmware measuring 32 bytes of fill into a SHA-256 register.
func (s *SWTPM) Extend(pcr int, fill byte) {
	s.tb.Helper()
	s.Raw(func(t transport.TPM) error {
		_, err := tpm2.PCRExtend{
			PCRHandle: tpm2.AuthHandle{Handle: tpm2.TPMHandle(pcr), Auth: tpm2.PasswordAuth(nil)},
			Digests: tpm2.TPMLDigestValues{Digests: []tpm2.TPMTHA{{
				HashAlg: tpm2.TPMAlgSHA256, Digest: bytes.Repeat([]byte{fill}, 32),
			}}},
		}.Execute(t)
		return err
	})
}

// Clear does what an operator's "clear TPM" in the firmware menu does.
func (s *SWTPM) Clear() {
	s.tb.Helper()
	s.Raw(func(t transport.TPM) error {
		_, err := tpm2.Clear{AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHPlatform, Auth: tpm2.PasswordAuth(nil)}}.Execute(t)
		return err
	})
}
