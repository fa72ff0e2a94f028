package tpm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-tpm/tpm2"
)

// PolicyKind names how a Slot's policy is built.
type PolicyKind string

// PolicyPCR is the literal policy: the registers' values at the start of the
// boot that sealed. "Fragile": a new kernel or firmware no longer opens it.
const PolicyPCR PolicyKind = "pcr"

// SlotTPM2 is the kind of a Slot that a TPM 2.0 opens.
const SlotTPM2 = "tpm2"

// Slot is one way to the data key of an Envelope.
type Slot struct {
	Kind    string     `json:"kind"`
	Policy  PolicyKind `json:"policy"`
	PCRs    PCRs       `json:"pcrs"`         // that the policy binds
	SRK     []byte     `json:"srk"`          // Name of the parent
	EK      []byte     `json:"ek,omitempty"` // Name of the endorsement key: tells a cleared TPM from another
	Public  []byte     `json:"public"`       // TPM2B_PUBLIC contents
	Private []byte     `json:"private"`      // TPM2B_PRIVATE contents
}

// policyAttempts: PCR_CHANGED comes when any register moves in the middle of a
// policy (IMA, another phase); three in a row have another cause.
const policyAttempts = 3

// nonceSize of our sessions, bytes: as many as the salt's and HMAC's strength.
const nonceSize = 16

// Seal wraps secret (at most 128 bytes, TPM 2.0 part 2, MAX_SYM_DATA) for this
// TPM and the registers as they were at the start of this boot.
func (t *TPM) Seal(ctx context.Context, secret []byte) (Slot, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot, err := t.seal(ctx, secret)
	if err != nil {
		return Slot{}, fmt.Errorf("seal: %w", t.classify(ctx, err))
	}
	return slot, nil
}

func (t *TPM) seal(ctx context.Context, secret []byte) (Slot, error) {
	if err := t.ready(ctx); err != nil {
		return Slot{}, err
	}
	bound := t.boot.bindable()
	policy, err := bound.policyDigest()
	if err != nil {
		return Slot{}, err
	}
	ek, err := t.endorsement(ctx)
	if err != nil {
		return Slot{}, err
	}
	srk, release, err := t.srk(ctx, nil)
	if err != nil {
		return Slot{}, err
	}
	defer release()
	// Encrypted on its way in: the key must not cross the bus in the clear.
	sess, _, err := tpm2.HMACSession(t.conn(ctx), tpm2.TPMAlgSHA256, nonceSize,
		tpm2.Salted(srk.handle, srk.public), tpm2.AESEncryption(128, tpm2.EncryptIn))
	if err != nil {
		return Slot{}, fmt.Errorf("start session: %w", err)
	}
	defer t.flush(ctx, sess.Handle())
	rsp, err := tpm2.Create{
		ParentHandle: tpm2.AuthHandle{Handle: srk.handle, Name: srk.name, Auth: sess},
		InSensitive: tpm2.TPM2BSensitiveCreate{Sensitive: &tpm2.TPMSSensitiveCreate{
			Data: tpm2.NewTPMUSensitiveCreate(&tpm2.TPM2BSensitiveData{Buffer: secret}),
		}},
		InPublic: tpm2.New2B(sealedTemplate(policy)),
	}.Execute(t.conn(ctx))
	if err != nil {
		return Slot{}, fmt.Errorf("create sealed object: %w", err)
	}
	return Slot{
		Kind: SlotTPM2, Policy: PolicyPCR, PCRs: bound, SRK: srk.name.Buffer, EK: ek,
		Public: rsp.OutPublic.Bytes(), Private: rsp.OutPrivate.Buffer,
	}, nil
}

// sealedTemplate: never userWithAuth, for the empty auth value would then do
// instead of the policy; noDA, for power cuts must not lock the node out.
func sealedTemplate(policy []byte) tpm2.TPMTPublic {
	return tpm2.TPMTPublic{
		Type:    tpm2.TPMAlgKeyedHash,
		NameAlg: tpm2.TPMAlgSHA256,
		ObjectAttributes: tpm2.TPMAObject{
			FixedTPM: true, FixedParent: true, AdminWithPolicy: true, NoDA: true,
		},
		AuthPolicy: tpm2.TPM2BDigest{Buffer: policy},
	}
}

// Unseal opens a slot, or says as an Outcome why this TPM does not.
func (t *TPM) Unseal(ctx context.Context, slot Slot) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slot.Kind != SlotTPM2 || slot.Policy != PolicyPCR {
		return nil, &Error{Outcome: Newer, Detail: fmt.Sprintf("key slot %q under policy %q", slot.Kind, slot.Policy)}
	}
	if err := t.ready(ctx); err != nil {
		return nil, fmt.Errorf("unseal: %w", err)
	}
	secret, err := t.unseal(ctx, slot)
	for range policyAttempts - 1 {
		if !errors.Is(err, tpm2.TPMRCPCRChanged) {
			break
		}
		secret, err = t.unseal(ctx, slot)
	}
	if err == nil {
		return secret, nil
	}
	if errors.Is(err, tpm2.TPMRCPolicyFail) {
		err = t.explainPolicy(ctx, slot, err)
	}
	return nil, fmt.Errorf("unseal: %w", t.classify(ctx, err))
}

func (t *TPM) unseal(ctx context.Context, slot Slot) ([]byte, error) {
	srk, release, err := t.srk(ctx, slot.SRK)
	if err != nil {
		return nil, err
	}
	defer release()
	if !bytes.Equal(srk.name.Buffer, slot.SRK) {
		return nil, t.foreign(ctx, slot)
	}
	load, err := tpm2.Load{
		ParentHandle: tpm2.AuthHandle{Handle: srk.handle, Name: srk.name, Auth: tpm2.PasswordAuth(nil)},
		InPrivate:    tpm2.TPM2BPrivate{Buffer: slot.Private},
		InPublic:     tpm2.BytesAs2B[tpm2.TPMTPublic](slot.Public),
	}.Execute(t.conn(ctx))
	if errors.Is(err, tpm2.TPMRCIntegrity) {
		return nil, &Error{Outcome: Corrupt, Detail: "the TPM does not know its own blob", Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("load sealed object: %w", err)
	}
	defer t.flush(ctx, load.ObjectHandle)
	return t.unsealLoaded(ctx, srk, load, slot)
}

func (t *TPM) unsealLoaded(ctx context.Context, srk parent, obj *tpm2.LoadResponse, slot Slot) ([]byte, error) {
	// Salted to the pinned SRK and encrypted on its way out: a plain policy
	// session would show the key to whoever listens on the bus.
	sess, _, err := tpm2.PolicySession(t.conn(ctx), tpm2.TPMAlgSHA256, nonceSize,
		tpm2.Salted(srk.handle, srk.public), tpm2.AESEncryption(128, tpm2.EncryptOut))
	if err != nil {
		return nil, fmt.Errorf("start policy session: %w", err)
	}
	defer t.flush(ctx, sess.Handle())
	_, err = tpm2.PolicyPCR{PolicySession: sess.Handle(), Pcrs: selection(slot.PCRs.Indices())}.Execute(t.conn(ctx))
	if err != nil {
		return nil, fmt.Errorf("apply PCR policy: %w", err)
	}
	rsp, err := tpm2.Unseal{ItemHandle: tpm2.AuthHandle{Handle: obj.ObjectHandle, Name: obj.Name, Auth: sess}}.Execute(t.conn(ctx))
	if err != nil {
		return nil, fmt.Errorf("open sealed object: %w", err)
	}
	return rsp.OutData.Buffer, nil
}

// foreign tells another TPM from this one after a clear.
func (t *TPM) foreign(ctx context.Context, slot Slot) error {
	ek, err := t.endorsement(ctx)
	if err != nil {
		return err
	}
	if len(ek) > 0 && bytes.Equal(ek, slot.EK) {
		return &Error{Outcome: Cleared}
	}
	return &Error{Outcome: Foreign}
}

// explainPolicy names the registers that made a policy fail: the TPM says only
// that it did.
func (t *TPM) explainPolicy(ctx context.Context, slot Slot, cause error) error {
	now, err := t.readPCRs(ctx, slot.PCRs.Indices())
	if err != nil {
		return err
	}
	if t.over || slot.PCRs.leadsTo(now, PhaseOpened) {
		return &Error{Outcome: PhaseOver}
	}
	changed := slot.PCRs.diff(now)
	if len(changed) == 0 {
		return &Error{Outcome: Corrupt, Detail: "the policy fails although no recorded PCR changed", Err: cause}
	}
	return &Error{Outcome: WrongPCRs, Detail: strings.Join(changed, ", ")}
}
