package tpm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/go-tpm/tpm2"
)

const (
	// commandTimeout is for one command. The slowest that we send (a P-256
	// primary, a self test in the way) takes 1 to 3 s on slow discrete TPMs.
	commandTimeout = 15 * time.Second
	// retryFirst doubles up to retryMax: the kernel's own driver starts at 5 ms
	// for the same codes; a self test takes up to a second.
	retryFirst = 10 * time.Millisecond
	retryMax   = 500 * time.Millisecond
	// retryBudget is for all retries of one command.
	retryBudget = 10 * time.Second
)

// conn lends a TPM and a context to go-tpm, whose interface has none, and does
// what every command needs: a deadline, a bounded retry, a startup.
type conn struct {
	ctx context.Context
	dev *TPM
}

// Send implements go-tpm's transport.TPM.
func (c conn) Send(command []byte) ([]byte, error) {
	wait, started := retryFirst, false
	begin := time.Now()
	for {
		rsp, err := c.once(command)
		if err != nil {
			return nil, &Error{Outcome: Unresponsive, Err: err}
		}
		rc, err := responseCode(rsp)
		if err != nil {
			return nil, err
		}
		switch {
		case rc == tpm2.TPMRCInitialize && !started:
			started = true
			if err := c.startup(); err != nil {
				return nil, err
			}
		case !retryable(rc):
			return rsp, nil
		case time.Since(begin) > retryBudget:
			return nil, &Error{Outcome: Unresponsive, Detail: fmt.Sprintf("busy for %v", time.Since(begin).Round(time.Second)), Err: rc}
		default:
			if err := sleep(c.ctx, wait); err != nil {
				return nil, &Error{Outcome: Unresponsive, Detail: rc.Error(), Err: err}
			}
			wait = min(2*wait, retryMax)
		}
	}
}

func (c conn) once(command []byte) ([]byte, error) {
	limit := c.dev.timeout
	ctx, cancel := context.WithTimeoutCause(c.ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	rsp, err := c.dev.t.Send(ctx, command)
	if err != nil {
		c.dev.lost = true
	}
	return rsp, err
}

// startup is firmware's work; a machine whose firmware skipped it answers
// TPM_RC_INITIALIZE to everything.
func (c conn) startup() error {
	cmd := []byte{0x80, 0x01, 0, 0, 0, 12, 0, 0, 0x01, 0x44, 0, 0} // TPM2_Startup(CLEAR)
	rsp, err := c.once(cmd)
	if err != nil {
		return &Error{Outcome: Unresponsive, Detail: "start up", Err: err}
	}
	if rc, err := responseCode(rsp); err != nil || (rc != tpm2.TPMRCSuccess && rc != tpm2.TPMRCInitialize) {
		return &Error{Outcome: Unresponsive, Detail: "start up", Err: errors.Join(err, rc)}
	}
	return nil
}

// responseCode reads a response's header. Tag 0x00C4 is TPM 1.2's
// TPM_TAG_RSP_COMMAND: such a chip answers every 2.0 command with it.
func responseCode(rsp []byte) (tpm2.TPMRC, error) {
	if len(rsp) < 10 || uint32(len(rsp)) != binary.BigEndian.Uint32(rsp[2:]) {
		return 0, &Error{Outcome: Unresponsive, Detail: fmt.Sprintf("malformed response of %d bytes", len(rsp))}
	}
	if binary.BigEndian.Uint16(rsp) == 0x00C4 {
		return 0, &Error{Outcome: Version12}
	}
	return tpm2.TPMRC(binary.BigEndian.Uint32(rsp[6:])), nil
}

// retryable lists the warnings after which the same bytes may be sent again:
// the command did not start (TPM 2.0 part 2, 6.6.3).
func retryable(rc tpm2.TPMRC) bool {
	switch rc {
	case tpm2.TPMRCRetry, tpm2.TPMRCYielded, tpm2.TPMRCTesting, tpm2.TPMRCNVRate, tpm2.TPMRCNVUnavailable:
		return true
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
