package join

import (
	"slices"
	"testing"

	"connectrpc.com/connect"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/identity"
)

func TestUploadBundle(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		ms, end := l.join(member(t, l.ca))
		defer func() { _ = end() }()
		if err := ms.UploadBundle(t.Context(), []byte("r1")); err != nil {
			t.Fatal(err)
		}
		if calls := l.ctl.booked(); !slices.Contains(calls, "upload r1") {
			t.Errorf("calls %v", calls)
		}
		l.ctl.fail("upload", identity.Refuse(connect.CodeInvalidArgument, clusterv1.RefusalKind_REFUSAL_KIND_INVALID, "torn", "keep it"))
		if err := ms.UploadBundle(t.Context(), []byte("r2")); !isRefused(err) {
			t.Errorf("got %v, want a refusal", err)
		}
	})
}
