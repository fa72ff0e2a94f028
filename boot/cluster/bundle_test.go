package cluster

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/crash"
)

func crashRecord(n int) crash.Record {
	return crash.Record{
		Kind: crash.Agent, BootID: "b1", Build: "test", Incarnation: uint64(n), Stage: "join\x1b[2J", Uptime: time.Duration(n) * time.Second,
		Time: time.Date(2026, 3, 1, 12, n, 0, 0, time.UTC), Reason: fmt.Sprintf("panic: number %d", n),
		Trace: bytes.Repeat([]byte("goroutine 1 [running]:\n"), 1000), Log: []byte("a line\n"),
	}
}

func upload(t *testing.T, c *running, n *node, raw []byte) string {
	t.Helper()
	resp, err := n.membership(c).UploadBundle(t.Context(), &clusterv1.UploadBundleRequest{BootId: "b1", Record: raw})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetId()
}

func bundles(t *testing.T, c *running, node string) (ids []string, list []*clusterv1.Bundle) {
	t.Helper()
	resp, err := c.operator.ListBundles(t.Context(), &clusterv1.ListBundlesRequest{Node: node})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range resp.GetBundles() {
		ids = append(ids, b.GetId())
	}
	return ids, resp.GetBundles()
}

func TestBundleComesBackAsItWas(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	n := enrolled(c, "n1")
	n.join(c, "b1", nil)
	if ids, _ := bundles(t, c, "n1"); len(ids) != 0 {
		t.Fatalf("bundles %v", ids)
	}

	raw := crashRecord(1).Encode()
	id := upload(t, c, n, raw)
	if again := upload(t, c, n, raw); again != id || id != crash.ID(raw) {
		t.Errorf("ids %s, %s, want %s", id, again, crash.ID(raw))
	}
	shorter := crashRecord(1)
	shorter.Trace = shorter.Trace[:100]
	upload(t, c, n, shorter.Encode()) // out of pstore, after the whole one

	ids, list := bundles(t, c, "n1")
	if len(ids) != 1 || ids[0] != id {
		t.Fatalf("bundles %v, want %s", ids, id)
	}
	if b := list[0]; b.GetReason() != "panic: number 1" || b.GetStage() != "join [2J" || b.GetIncarnation() != 1 || b.GetReceived() == nil || int(b.GetSize()) != len(raw) {
		t.Errorf("got %v", b)
	}
	got, err := c.operator.GetBundle(t.Context(), &clusterv1.GetBundleRequest{Node: "n1", Id: id})
	if err != nil || !bytes.Equal(got.GetRecord(), raw) {
		t.Errorf("the record came back as another: %v", err)
	}
	_, err = c.operator.GetBundle(t.Context(), &clusterv1.GetBundleRequest{Node: "n1", Id: "0000"})
	wantCode(t, err, connect.CodeNotFound)
	if err != nil && !strings.Contains(err.Error(), id) {
		t.Errorf("%v does not name the one there is", err)
	}
}

// TestServiceBundlesHaveTheirOwnBound: many of them push out no crash.
func TestServiceBundlesHaveTheirOwnBound(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	n := enrolled(c, "n1")
	n.join(c, "b1", nil)
	want := []string{upload(t, c, n, crashRecord(1).Encode())}
	for i := range maxBundles + 3 {
		r := crashRecord(i + 1)
		r.Kind = crash.Service
		want = append(want, upload(t, c, n, r.Encode()))
	}
	want = slices.Delete(want, 1, 4)
	if ids, _ := bundles(t, c, "n1"); !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
}

func TestOldestBundlesGiveWay(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	n := enrolled(c, "n1")
	n.join(c, "b1", nil)
	var want []string
	for i := range maxBundles + 3 {
		want = append(want, upload(t, c, n, crashRecord(i+1).Encode()))
	}
	if ids, _ := bundles(t, c, "n1"); !slices.Equal(ids, want[3:]) {
		t.Errorf("got %v, want %v", ids, want[3:])
	}
	_, err := c.operator.GetBundle(t.Context(), &clusterv1.GetBundleRequest{Node: "n1", Id: want[2]})
	wantCode(t, err, connect.CodeNotFound)

	// Noise does not pack: these are at the bound of bytes before that of number.
	noise := rand.NewChaCha8([32]byte{})
	for i := range 8 {
		r := crashRecord(100 + i)
		r.Trace, r.Dmesg = make([]byte, 128<<10), make([]byte, 100<<10)
		noise.Read(r.Trace)
		noise.Read(r.Dmesg)
		upload(t, c, n, r.Encode())
	}
	_, list := bundles(t, c, "n1")
	var sum uint32
	for _, b := range list {
		sum += b.GetSize()
	}
	if len(list) < 3 || sum > maxBundleBytes {
		t.Errorf("%d bundles of %d bytes", len(list), sum)
	}
}

func TestBundleRefusals(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	n := enrolled(c, "n1")
	n.join(c, "b1", nil)
	torn := crashRecord(1).Encode()
	torn[100] ^= 1
	for _, record := range [][]byte{nil, torn, make([]byte, crash.MaxRecord)} {
		_, err := n.membership(c).UploadBundle(t.Context(), &clusterv1.UploadBundleRequest{BootId: "b1", Record: record})
		wantRefusal(t, err, connect.CodeInvalidArgument, clusterv1.RefusalKind_REFUSAL_KIND_INVALID)
	}
	_, err := n.membership(c).UploadBundle(t.Context(), &clusterv1.UploadBundleRequest{BootId: "b1", Record: make([]byte, 2*maxUpload)})
	wantCode(t, err, connect.CodeResourceExhausted)
	_, err = c.operator.ListBundles(t.Context(), &clusterv1.ListBundlesRequest{Node: "n9"})
	wantRefusal(t, err, connect.CodeNotFound, clusterv1.RefusalKind_REFUSAL_KIND_NODE_UNKNOWN)

	upload(t, c, n, crashRecord(1).Encode())
	if _, err := c.operator.RemoveNode(t.Context(), &clusterv1.RemoveNodeRequest{Name: "n1"}); err != nil {
		t.Fatal(err)
	}
	_, err = n.membership(c).UploadBundle(t.Context(), &clusterv1.UploadBundleRequest{BootId: "b1", Record: crashRecord(2).Encode()})
	wantRefusal(t, err, connect.CodePermissionDenied, clusterv1.RefusalKind_REFUSAL_KIND_NODE_REMOVED)
	if ids, _ := bundles(t, c, "n1"); len(ids) != 1 {
		t.Errorf("a removed node's bundles are gone: %v", ids)
	}
}
