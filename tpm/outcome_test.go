package tpm_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"reveille/tpm"
	"reveille/tpm/tpmtest"
)

func TestWrongPCRsAreNamed(t *testing.T) {
	s := booted(t)
	dev := s.Open()
	if got, want := dev.Binding(), "PCRs 4,7,11 (fragile)"; got != want {
		t.Errorf("binding %q, want %q", got, want)
	}
	slot := mustSeal(t, dev)
	dev.Close()
	s.Restart()
	s.Extend(4, 0x44)
	s.Extend(7, 0xAA)
	dev = s.Open()
	_, err := dev.Unseal(t.Context(), slot)
	wantOutcome(t, err, tpm.WrongPCRs)
	if !strings.Contains(err.Error(), "PCR 7 (sealed ") || strings.Contains(err.Error(), "PCR 4") {
		t.Errorf("want PCR 7 alone named, got %v", err)
	}
}

func TestOtherTPM(t *testing.T) {
	first := booted(t).Open()
	slot := mustSeal(t, first)
	_, err := booted(t).Open().Unseal(t.Context(), slot)
	wantOutcome(t, err, tpm.Foreign)
}

func TestClearedTPM(t *testing.T) {
	s := booted(t)
	dev := s.Open()
	slot := mustSeal(t, dev)
	dev.Close()
	s.Clear()
	_, err := s.Open().Unseal(t.Context(), slot)
	wantOutcome(t, err, tpm.Cleared)
}

func TestDamagedBlob(t *testing.T) {
	s := booted(t)
	dev := s.Open()
	slot := mustSeal(t, dev)
	slot.Private[len(slot.Private)-1] ^= 1
	_, err := dev.Unseal(t.Context(), slot)
	wantOutcome(t, err, tpm.Corrupt)
}

func TestUnknownSlotIsNewer(t *testing.T) {
	dev := booted(t).Open()
	_, err := dev.Unseal(t.Context(), tpm.Slot{Kind: "tpm2", Policy: "authorize"})
	wantOutcome(t, err, tpm.Newer)
}

func TestNoSHA256Bank(t *testing.T) {
	_, err := tpm.New(t.Context(), tpmtest.StartSHA1(t).Dial(), tpm.Options{})
	wantOutcome(t, err, tpm.NoSHA256)
}

func TestTPM12(t *testing.T) {
	_, err := tpm.New(t.Context(), tpmtest.Start12(t).Dial(), tpm.Options{})
	wantOutcome(t, err, tpm.Version12)
}

// lockOut fails the authorization of a protected object until the TPM locks.
func lockOut(raw transport.TPM) error {
	srk, err := tpm2.CreatePrimary{PrimaryHandle: tpm2.TPMRHOwner, InPublic: tpm2.New2B(tpm2.ECCSRKTemplate)}.Execute(raw)
	if err != nil {
		return err
	}
	obj, err := tpm2.CreateLoaded{
		ParentHandle: tpm2.AuthHandle{Handle: srk.ObjectHandle, Name: srk.Name, Auth: tpm2.PasswordAuth(nil)},
		InSensitive: tpm2.TPM2BSensitiveCreate{Sensitive: &tpm2.TPMSSensitiveCreate{
			UserAuth: tpm2.TPM2BAuth{Buffer: []byte("right")},
			Data:     tpm2.NewTPMUSensitiveCreate(&tpm2.TPM2BSensitiveData{Buffer: secret}),
		}},
		InPublic: tpm2.New2BTemplate(&tpm2.TPMTPublic{
			Type: tpm2.TPMAlgKeyedHash, NameAlg: tpm2.TPMAlgSHA256,
			ObjectAttributes: tpm2.TPMAObject{FixedTPM: true, FixedParent: true, UserWithAuth: true},
		}),
	}.Execute(raw)
	if err != nil {
		return err
	}
	for range 64 {
		_, err := tpm2.Unseal{ItemHandle: tpm2.AuthHandle{Handle: obj.ObjectHandle, Name: obj.Name, Auth: tpm2.PasswordAuth([]byte("wrong"))}}.Execute(raw)
		if errors.Is(err, tpm2.TPMRCLockout) {
			return nil
		}
	}
	return errors.New("the TPM does not lock out")
}

func TestLockoutOfOthersDoesNotTouchUs(t *testing.T) {
	s := booted(t)
	dev := s.Open()
	slot := mustSeal(t, dev)
	dev.Close()
	s.Raw(lockOut)
	dev = s.Open()
	if _, err := dev.Unseal(t.Context(), slot); err != nil {
		t.Fatalf("unseal in lockout: %v", err)
	}
	mustSeal(t, dev)
}

func TestLockoutTellsTheWait(t *testing.T) {
	s := booted(t)
	s.Raw(lockOut)
	dev := openThrough(t, &tpmtest.Filter{Next: s.Dial(), Answer: func(_ context.Context, cc tpm2.TPMCC, _ []byte) ([]byte, error) {
		if cc == tpm2.TPMCCCreate {
			return tpmtest.Response(tpm2.TPMRCLockout), nil
		}
		return nil, nil
	}})
	_, err := dev.Seal(t.Context(), secret)
	wantOutcome(t, err, tpm.Lockout)
	if !strings.Contains(err.Error(), "failures, for at most ") || strings.Contains(err.Error(), "unknown") {
		t.Errorf("no waiting time in %v", err)
	}
}
