package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"reveille/boot/cluster/storev1"
)

// The layout of the store. The version is that of the layout: another one
// would live beside it while nodes move over.
const (
	root           = "/reveille/v1/"
	clusterKey     = root + "cluster"
	directoryKey   = root + "directory"
	controllersKey = root + "controllers/" // + controller name
	ticketsKey     = root + "tickets/"     // + hex SHA-256 of the ticket
	nodesKey       = root + "nodes/"       // + node name
	presenceKey    = root + "presence/"    // + node name
	keysKey        = root + "keys/"        // + hex SHA-256 of the node's public key
	servicesKey    = root + "services/"    // + node name
	bundleListsKey = root + "bundlelists/" // + node name
	bundlesKey     = root + "bundles/"     // + node name / bundle id
)

// One etcd transaction takes milliseconds, up to a second on a tired disk;
// beyond five the node had better ask another controller.
const storeTimeout = 5 * time.Second

// errConflict: somebody changed a record between load and save.
var errConflict = errors.New("record changed meanwhile")

// errEtcd: the store itself could not be used. It may be later.
var errEtcd = errors.New("etcd")

// store is etcd seen as protobuf records with optimistic locking.
type store struct{ kv clientv3.KV }

// record is one key. Its revision is zero while the key does not exist.
type record struct {
	key string
	msg proto.Message
	rev int64
}

func (r *record) exists() bool { return r.rev != 0 }

// load reads all records at one revision of the store; those that do not
// exist keep their empty message.
func (s *store) load(ctx context.Context, records ...*record) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	ops := make([]clientv3.Op, len(records))
	for i, r := range records {
		ops[i] = clientv3.OpGet(r.key)
	}
	resp, err := s.kv.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return fmt.Errorf("read store: %w: %w", errEtcd, err)
	}
	for i, r := range records {
		proto.Reset(r.msg)
		r.rev = 0
		for _, kv := range resp.Responses[i].GetResponseRange().Kvs {
			if err := proto.Unmarshal(kv.Value, r.msg); err != nil {
				return fmt.Errorf("read store: decode %s: %w", r.key, err)
			}
			r.rev = kv.ModRevision
		}
	}
	return nil
}

// save writes put and deletes gone in one transaction, if none of the loaded
// records has changed since; else errConflict, and nothing is written.
func (s *store) save(ctx context.Context, loaded, put, gone []*record) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var conditions []clientv3.Cmp
	for _, r := range loaded {
		conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(r.key), "=", r.rev))
	}
	var ops []clientv3.Op
	for _, r := range put {
		value, err := proto.Marshal(r.msg)
		if err != nil {
			return fmt.Errorf("write store: encode %s: %w", r.key, err)
		}
		ops = append(ops, clientv3.OpPut(r.key, string(value)))
	}
	for _, r := range gone {
		ops = append(ops, clientv3.OpDelete(r.key))
	}
	resp, err := s.kv.Txn(ctx).If(conditions...).Then(ops...).Commit()
	if err != nil {
		return fmt.Errorf("write store: %w: %w", errEtcd, err)
	}
	if !resp.Succeeded {
		return errConflict
	}
	return nil
}

// Enough for every controller of a cluster to win once against all others.
const maxConflicts = 10

// transact repeats a load-decide-save step while it ends in a conflict.
func transact(ctx context.Context, step func() error) error {
	for range maxConflicts {
		if err := step(); !errors.Is(err, errConflict) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("write store: %w", err)
		}
	}
	return fmt.Errorf("write store: %w, %d times", errConflict, maxConflicts)
}

// member is everything stored about one node.
type member struct {
	node     *storev1.Node
	presence *storev1.Presence
}

// list reads all nodes at one revision, in the order of their names.
func (s *store) list(ctx context.Context) ([]member, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	resp, err := s.kv.Txn(ctx).Then(
		clientv3.OpGet(nodesKey, clientv3.WithPrefix()), // sorted by key
		clientv3.OpGet(presenceKey, clientv3.WithPrefix()),
	).Commit()
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w: %w", errEtcd, err)
	}
	presences := map[string]*storev1.Presence{}
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		p := new(storev1.Presence)
		if err := proto.Unmarshal(kv.Value, p); err != nil {
			return nil, fmt.Errorf("list nodes: decode %s: %w", kv.Key, err)
		}
		presences[string(kv.Key[len(presenceKey):])] = p
	}
	var members []member
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		n := new(storev1.Node)
		if err := proto.Unmarshal(kv.Value, n); err != nil {
			return nil, fmt.Errorf("list nodes: decode %s: %w", kv.Key, err)
		}
		members = append(members, member{n, presences[n.GetName()]})
	}
	return members, nil
}
