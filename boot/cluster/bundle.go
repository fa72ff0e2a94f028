package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/storev1"
	"reveille/boot/crash"
	"reveille/boot/identity"
)

const (
	// A node in a loop of crashes sends the same story again and again; the
	// first and the last of sixteen tell how it began and how it is.
	maxBundles = 16
	// What one node may take of the store, bytes. A record is some 12 KiB in
	// there; with a thousand nodes at this bound an etcd reaches half its quota.
	maxBundleBytes = 1 << 20
	// maxUpload is a record in its message.
	maxUpload = crash.MaxRecord + 4<<10
)

// UploadBundle implements clusterv1connect.MembershipServiceHandler. The record
// is stored before the answer, which lets the node forget it.
func (m *membershipService) UploadBundle(ctx context.Context, req *clusterv1.UploadBundleRequest) (*clusterv1.UploadBundleResponse, error) {
	st, err := crash.Decode(req.GetRecord())
	if err != nil {
		return nil, invalid(fmt.Sprintf("read crash record: %v", err), "the node keeps it on its state partition")
	}
	boot := printable(req.GetBootId(), maxName)
	if boot == "" {
		return nil, invalid("the boot id is empty", "send the kernel's boot id")
	}
	bundle := bundleOf(st, time.Now())
	var known bool
	err = transact(ctx, func() error {
		s, err := m.open(ctx, boot)
		if err != nil {
			return err
		}
		known, err = m.store.keepBundle(ctx, s.peer.Name, s.loaded[0], bundle, st)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !known {
		peer, _ := identity.PeerFrom(ctx)
		m.log.Warn("crash record received", "node", peer.Name, "bundle", bundle.GetId(), "kind", bundle.GetKind(),
			"reason", bundle.GetReason(), "boot", bundle.GetBootId(), "stage", bundle.GetStage())
	}
	return &clusterv1.UploadBundleResponse{Id: st.ID}, nil
}

// bundleOf is what a list shows of a record, made printable: a node may be
// anybody's by now.
func bundleOf(st crash.Stored, now time.Time) *clusterv1.Bundle {
	b := &clusterv1.Bundle{
		Id: st.ID, Kind: printable(string(st.Kind), maxName), Reason: printable(st.Reason, maxReason),
		Received: timestamppb.New(now), BootId: printable(st.BootID, maxName), BuildId: printable(st.Build, maxBuildID),
		Stage: printable(st.Stage, maxName), Incarnation: st.Incarnation, Size: uint32(len(st.Raw)),
	}
	if st.Uptime > 0 {
		b.Uptime = durationpb.New(st.Uptime)
	}
	if t := timestamppb.New(st.Time); !st.Time.IsZero() && t.IsValid() {
		b.Time = t
	}
	return b
}

// sameDeath is crash.Stored.SameDeath for what is left in a list.
func sameDeath(a, b *clusterv1.Bundle) bool {
	if a.GetId() == b.GetId() {
		return true
	}
	return a.GetBootId() != "" && a.GetBootId() == b.GetBootId() && a.GetKind() == b.GetKind() &&
		a.GetIncarnation() == b.GetIncarnation() && a.GetUptime().AsDuration() == b.GetUptime().AsDuration()
}

// keepBundle adds a record to its node's, the oldest of which give way; known
// tells that it is there already.
func (s *store) keepBundle(ctx context.Context, node string, owner *record, b *clusterv1.Bundle, st crash.Stored) (known bool, err error) {
	list := new(storev1.Bundles)
	index := &record{key: bundleListsKey + node, msg: list}
	if err := s.load(ctx, index); err != nil {
		return false, err
	}
	for _, old := range list.GetBundles() {
		if sameDeath(old.GetBundle(), b) {
			return true, nil
		}
	}
	packed, err := pack(st.Raw)
	if err != nil {
		return false, err
	}
	list.Bundles = append(list.Bundles, &storev1.StoredBundle{Bundle: b, Stored: uint32(len(packed))})
	var gone []*record
	for _, old := range dropOldest(list) {
		gone = append(gone, &record{key: bundleKey(node, old.GetBundle().GetId())})
	}
	body := &record{key: bundleKey(node, b.GetId()), msg: &storev1.BundleRecord{Zstd: packed}}
	return false, s.save(ctx, []*record{owner, index}, []*record{index, body}, gone)
}

// dropOldest makes the list fit its bounds; the newest always stays.
func dropOldest(list *storev1.Bundles) []*storev1.StoredBundle {
	var left budget
	var kept, gone []*storev1.StoredBundle
	for _, b := range slices.Backward(list.Bundles) {
		if left.take(b) {
			kept = append(kept, b)
		} else {
			gone = append(gone, b)
		}
	}
	slices.Reverse(kept)
	list.Bundles = kept
	return gone
}

// budget is what bundles have taken, those of services apart: many of them may
// fail, which must not cost the crash of an agent.
type budget [2]struct {
	count, bytes uint32
	full         bool
}

func (l *budget) take(b *storev1.StoredBundle) bool {
	use := &l[0]
	if b.GetBundle().GetKind() == string(crash.Service) {
		use = &l[1]
	}
	use.bytes += b.GetStored()
	use.full = use.full || use.count == maxBundles || use.count > 0 && use.bytes > maxBundleBytes
	if use.full {
		return false
	}
	use.count++
	return true
}

func bundleKey(node, id string) string { return bundlesKey + node + "/" + id }

func pack(raw []byte) ([]byte, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("pack crash record: %w", err)
	}
	defer e.Close()
	return e.EncodeAll(raw, nil), nil
}

func unpack(packed []byte) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(crash.MaxRecord))
	if err != nil {
		return nil, fmt.Errorf("unpack crash record: %w", err)
	}
	defer d.Close()
	raw, err := d.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack crash record: %w", err)
	}
	return raw, nil
}

// ListBundles implements clusterv1connect.OperatorServiceHandler. A removed
// node's are there until a namesake's push them out.
func (o *operatorService) ListBundles(ctx context.Context, req *clusterv1.ListBundlesRequest) (*clusterv1.ListBundlesResponse, error) {
	if _, _, err := o.find(ctx, req.GetNode()); err != nil {
		return nil, err
	}
	list := new(storev1.Bundles)
	if err := o.store.load(ctx, &record{key: bundleListsKey + req.GetNode(), msg: list}); err != nil {
		return nil, err
	}
	resp := new(clusterv1.ListBundlesResponse)
	for _, b := range list.GetBundles() {
		resp.Bundles = append(resp.Bundles, b.GetBundle())
	}
	return resp, nil
}

// GetBundle implements clusterv1connect.OperatorServiceHandler.
func (o *operatorService) GetBundle(ctx context.Context, req *clusterv1.GetBundleRequest) (*clusterv1.GetBundleResponse, error) {
	if _, _, err := o.find(ctx, req.GetNode()); err != nil {
		return nil, err
	}
	list, body := new(storev1.Bundles), new(storev1.BundleRecord)
	index := &record{key: bundleListsKey + req.GetNode(), msg: list}
	stored := &record{key: bundleKey(req.GetNode(), printable(req.GetId(), maxName)), msg: body}
	if err := o.store.load(ctx, index, stored); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list.GetBundles(), func(b *storev1.StoredBundle) bool { return b.GetBundle().GetId() == req.GetId() })
	if at < 0 || !stored.exists() {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("node %s has no bundle %s here; %s",
			req.GetNode(), printable(req.GetId(), maxName), haveInstead(list)))
	}
	raw, err := unpack(body.GetZstd())
	if err != nil {
		return nil, err
	}
	return &clusterv1.GetBundleResponse{Bundle: list.GetBundles()[at].GetBundle(), Record: raw}, nil
}

func haveInstead(list *storev1.Bundles) string {
	if len(list.GetBundles()) == 0 {
		return "it has none"
	}
	var ids []string
	for _, b := range list.GetBundles() { // at most maxBundles
		ids = append(ids, b.GetBundle().GetId())
	}
	return "it has " + strings.Join(ids, ", ")
}
