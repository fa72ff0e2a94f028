// Package tpm keeps a secret that only this machine, booted this way, can open:
// it seals a key under a TPM 2.0 and a policy over PCRs, and holds the file
// format that carries it.
//
// Nothing here decides what to do about a TPM that refuses: every failure is an
// Outcome with a remedy, and the caller shows it.
package tpm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-tpm/tpm2"
)

// Options tune Open and New; the zero value is right for a node.
type Options struct {
	// Device is the only device to try; empty: /dev/tpm0, then /dev/tpmrm0.
	Device string
	// Wait is how long Open waits for a device that is still being probed;
	// zero: 30 s when firmware announces a TPM, else 2 s.
	Wait time.Duration
	// CommandTimeout bounds one command; zero: 15 s.
	CommandTimeout time.Duration
}

// TPM is a TPM 2.0 with the register values that this boot started with.
// Its methods may be called concurrently; commands go out one operation at a time.
type TPM struct {
	name    string // `TPM 2.0 "IBM" on /dev/tpm0`
	timeout time.Duration
	redial  func(context.Context) (Transport, error) // nil: a lost Transport stays lost

	mu   sync.Mutex
	t    Transport
	lost bool   // t failed: its stream is out of step
	boot PCRs   // before any ExtendPhase of this boot
	over bool   // ExtendPhase was done in this boot
	ek   []byte // Name of the endorsement key, once it was needed
}

// New takes over a Transport (also when it fails), clears what a killed
// predecessor left in the TPM, and reads the registers.
func New(ctx context.Context, tr Transport, opts Options) (*TPM, error) {
	t := &TPM{name: "TPM", t: tr, timeout: opts.CommandTimeout}
	if t.timeout == 0 {
		t.timeout = commandTimeout
	}
	if err := t.start(ctx); err != nil {
		return nil, errors.Join(err, tr.Close())
	}
	return t, nil
}

func (t *TPM) start(ctx context.Context) error {
	maker, err := t.property(ctx, tpm2.TPMPTManufacturer)
	if err != nil {
		return fmt.Errorf("ask TPM for its maker: %w", err)
	}
	id := strings.Trim(string(binary.BigEndian.AppendUint32(nil, maker)), " \x00")
	t.name = fmt.Sprintf("TPM 2.0 %q", id)
	if err := t.flushStale(ctx); err != nil {
		return err
	}
	t.boot, err = t.readPCRs(ctx, snapshotPCRs)
	return err
}

// Close lets go of the device.
func (t *TPM) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.t.Close()
}

// String names the TPM for a log line.
func (t *TPM) String() string { return t.name }

// Binding says in words what Seal binds a secret to.
func (t *TPM) Binding() string { return t.Snapshot().Binding() }

// Snapshot returns the registers as they were before any ExtendPhase of this boot.
func (t *TPM) Snapshot() PCRs {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.boot)
}

// PhaseOver tells whether ExtendPhase was done in this boot, as far as is known.
func (t *TPM) PhaseOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// PhaseOpened is the phase that begins once the config was opened.
const PhaseOpened = "config-opened"

// ExtendPhase extends PCR 11 with the name of a phase that begins. What was
// sealed in this boot or before cannot be unsealed again until the next one. An
// error means that the register may not have moved: the secret is then still
// open to every process with access to the TPM. Repeating it is safe.
func (t *TPM) ExtendPhase(ctx context.Context, phase string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ready(ctx); err != nil {
		return err
	}
	before, err := t.readPCRs(ctx, []int{phasePCR})
	if err != nil {
		return err
	}
	d := phaseDigest(phase)
	if boot, ok := t.boot.Get(phasePCR); ok && before[0].Digest == extend(boot.Digest, d) {
		t.over = true // done before; only the answer was lost
		return nil
	}
	_, err = tpm2.PCRExtend{
		PCRHandle: tpm2.AuthHandle{Handle: tpm2.TPMHandle(phasePCR), Auth: tpm2.PasswordAuth(nil)},
		Digests:   tpm2.TPMLDigestValues{Digests: []tpm2.TPMTHA{{HashAlg: tpm2.TPMAlgSHA256, Digest: d[:]}}},
	}.Execute(t.conn(ctx))
	if err != nil {
		return fmt.Errorf("extend PCR %d: %w", phasePCR, t.classify(ctx, err))
	}
	// A TPM without the bank accepts the command and does nothing: read it back.
	after, err := t.readPCRs(ctx, []int{phasePCR})
	if err != nil {
		return err
	}
	if after[0].Digest != extend(before[0].Digest, d) {
		return &Error{Outcome: Unresponsive, Detail: fmt.Sprintf("PCR %d did not take the extension", phasePCR)}
	}
	t.over = true
	return nil
}

// Resume tells a TPM opened by a restarted agent how this boot began: the
// snapshot that its predecessor took. The registers may have moved since, by
// ExtendPhase or by a service; what is sealed from now on is for the boot's start.
func (t *TPM) Resume(boot PCRs) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, _ := boot.Get(phasePCR)
	is, _ := t.boot.Get(phasePCR)
	t.boot, t.over = slices.Clone(boot), was != is
}

func (t *TPM) conn(ctx context.Context) conn { return conn{ctx, t} }

// ready begins an operation: a TPM that once did not answer is opened again, so
// that a retry of the caller is a real one.
func (t *TPM) ready(ctx context.Context) error {
	if !t.lost || t.redial == nil {
		return nil
	}
	tr, err := t.redial(ctx)
	if err != nil {
		return fmt.Errorf("open TPM again: %w", err)
	}
	_ = t.t.Close() // it failed before, and said so
	t.t, t.lost = tr, false
	return t.flushStale(ctx)
}

// property reads one TPM_PT value.
func (t *TPM) property(ctx context.Context, pt tpm2.TPMPT) (uint32, error) {
	rsp, err := tpm2.GetCapability{Capability: tpm2.TPMCapTPMProperties, Property: uint32(pt), PropertyCount: 1}.Execute(t.conn(ctx))
	if err != nil {
		return 0, t.classify(ctx, err)
	}
	props, err := rsp.CapabilityData.Data.TPMProperties()
	if err != nil {
		return 0, err
	}
	if len(props.TPMProperty) == 0 || props.TPMProperty[0].Property != pt {
		return 0, fmt.Errorf("TPM does not tell property %#x", uint32(pt))
	}
	return props.TPMProperty[0].Value, nil
}

// flushStale evicts transient objects and loaded sessions: a killed process
// leaves its own behind in /dev/tpm0, and three of them fill the TPM. At boot
// nobody else uses it; through /dev/tpmrm0 only this file's own are listed.
func (t *TPM) flushStale(ctx context.Context) error {
	for _, first := range []tpm2.TPMHandle{0x80000000, 0x02000000} { // TPM_HT_TRANSIENT, TPM_HT_LOADED_SESSION
		// 16: more than any TPM holds of either (3 objects, 3 sessions are usual).
		rsp, err := tpm2.GetCapability{Capability: tpm2.TPMCapHandles, Property: uint32(first), PropertyCount: 16}.Execute(t.conn(ctx))
		if err != nil {
			return fmt.Errorf("list TPM handles: %w", t.classify(ctx, err))
		}
		handles, err := rsp.CapabilityData.Data.Handles()
		if err != nil {
			return fmt.Errorf("list TPM handles: %w", err)
		}
		for _, h := range handles.Handle {
			t.flush(ctx, h)
		}
	}
	return nil
}

// flush evicts a handle of ours, also when ctx is already done: a slot that
// stays taken would fail the next operation. If it fails, so will that one, and
// flushStale repairs it at the next start.
func (t *TPM) flush(ctx context.Context, h tpm2.TPMHandle) {
	_, _ = tpm2.FlushContext{FlushHandle: h}.Execute(t.conn(context.WithoutCancel(ctx)))
}

// classify turns a TPM's answer into an Outcome where there is one.
func (t *TPM) classify(ctx context.Context, err error) error {
	switch {
	case OutcomeOf(err) != 0:
		return err
	case errors.Is(err, tpm2.TPMRCLockout):
		return &Error{Outcome: Lockout, Detail: t.lockoutWait(ctx), Err: err}
	case errors.Is(err, tpm2.TPMRCFailure):
		return &Error{Outcome: Unresponsive, Detail: "failure mode", Err: err}
	}
	return err
}

// lockoutWait says how long a lockout can last: the failure counter falls by
// one each interval (TPM 2.0 part 1, 19.8), and one less is enough.
func (t *TPM) lockoutWait(ctx context.Context) string {
	count, err1 := t.property(ctx, tpm2.TPMPTLockoutCounter)
	interval, err2 := t.property(ctx, tpm2.TPMPTLockoutInterval)
	if err1 != nil || err2 != nil {
		return "for an unknown time"
	}
	return fmt.Sprintf("after %d failures, for at most %v", count, time.Duration(interval)*time.Second)
}
