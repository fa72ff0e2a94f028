package tpmtest

import (
	"context"
	"encoding/binary"

	"github.com/google/go-tpm/tpm2"

	"reveille/tpm"
)

// Filter sits between the code under test and a TPM.
type Filter struct {
	// Next gets what Answer leaves; nil when Answer leaves nothing.
	Next tpm.Transport
	// Answer returns the response to a command, or nil to pass it on.
	Answer func(ctx context.Context, cc tpm2.TPMCC, command []byte) ([]byte, error)
	// Seen, if set, is shown every command and every response.
	Seen func(bytes []byte)
}

// Send implements tpm.Transport.
func (f *Filter) Send(ctx context.Context, command []byte) ([]byte, error) {
	f.show(command)
	if f.Answer != nil {
		cc := tpm2.TPMCC(binary.BigEndian.Uint32(command[6:]))
		if rsp, err := f.Answer(ctx, cc, command); rsp != nil || err != nil {
			f.show(rsp)
			return rsp, err
		}
	}
	rsp, err := f.Next.Send(ctx, command)
	f.show(rsp)
	return rsp, err
}

func (f *Filter) show(b []byte) {
	if f.Seen != nil && b != nil {
		f.Seen(b)
	}
}

// Close implements tpm.Transport.
func (f *Filter) Close() error {
	if f.Next == nil {
		return nil
	}
	return f.Next.Close()
}

// Response is a response without parameters.
func Response(rc tpm2.TPMRC) []byte {
	b := []byte{0x80, 0x01, 0, 0, 0, 10}
	return binary.BigEndian.AppendUint32(b, uint32(rc))
}
