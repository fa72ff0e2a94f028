package tpm

import (
	"bytes"
	"context"
	"fmt"

	"github.com/google/go-tpm/tpm2"
)

// persistentSRK is where TCG's provisioning guidance puts the SRK.
const persistentSRK tpm2.TPMHandle = 0x81000001

// parent is a loaded storage root key.
type parent struct {
	handle tpm2.TPMHandle
	name   tpm2.TPM2BName
	public tpm2.TPMTPublic
}

// srk loads the storage root key: the persistent one if it is the pinned one,
// else a transient primary from the same template, whose Name is the same on
// the same TPM until it is cleared. Nothing is made persistent, and no foreign
// object evicted.
func (t *TPM) srk(ctx context.Context, pinned []byte) (parent, func(), error) {
	if pinned != nil {
		if p, ok := t.storedSRK(ctx, pinned); ok {
			return p, func() {}, nil
		}
	}
	return t.primary(ctx, tpm2.TPMRHOwner, tpm2.ECCSRKTemplate)
}

// storedSRK checks the persistent key by the Name of its public area as
// computed here: the Name that a TPM tells beside it proves nothing.
func (t *TPM) storedSRK(ctx context.Context, pinned []byte) (parent, bool) {
	rsp, err := tpm2.ReadPublic{ObjectHandle: persistentSRK}.Execute(t.conn(ctx))
	if err != nil {
		return parent{}, false
	}
	pub, err := rsp.OutPublic.Contents()
	if err != nil {
		return parent{}, false
	}
	name, err := tpm2.ObjectName(pub)
	if err != nil || !bytes.Equal(name.Buffer, pinned) {
		return parent{}, false
	}
	return parent{persistentSRK, *name, *pub}, true
}

func (t *TPM) primary(ctx context.Context, hierarchy tpm2.TPMHandle, template tpm2.TPMTPublic) (parent, func(), error) {
	rsp, err := tpm2.CreatePrimary{PrimaryHandle: hierarchy, InPublic: tpm2.New2B(template)}.Execute(t.conn(ctx))
	if err != nil {
		return parent{}, nil, fmt.Errorf("create primary key: %w", err)
	}
	release := func() { t.flush(ctx, rsp.ObjectHandle) }
	pub, err := rsp.OutPublic.Contents()
	if err == nil {
		var name *tpm2.TPM2BName
		if name, err = tpm2.ObjectName(pub); err == nil {
			return parent{rsp.ObjectHandle, *name, *pub}, release, nil
		}
	}
	release()
	return parent{}, nil, fmt.Errorf("read primary key: %w", err)
}

// endorsement returns the Name of the P-256 endorsement key (template L-2),
// which survives a clear of the owner hierarchy; nil where an owner has locked
// that hierarchy away, for it only improves a message.
func (t *TPM) endorsement(ctx context.Context) ([]byte, error) {
	if t.ek != nil {
		return t.ek, nil
	}
	p, release, err := t.primary(ctx, tpm2.TPMRHEndorsement, tpm2.ECCEKTemplate)
	if OutcomeOf(err) != 0 {
		return nil, err
	}
	if err != nil {
		return nil, nil
	}
	release()
	t.ek = p.name.Buffer
	return t.ek, nil
}
