package boot

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/proc"
	"reveille/boot/service"
	"reveille/boot/service/payload"
	"reveille/boot/supervise"
)

// Where services have their files. All of it is memory, and goes with the boot.
const (
	payloadsDir = "/run/reveille/payloads"
	rootsDir    = "/run/reveille/roots"   // an incarnation's own, by its name
	foldersDir  = "/run/reveille/folders" // that services share
)

// rootDir is where an incarnation has its root.
func rootDir(ref service.Ref) string {
	return filepath.Join(rootsDir, fmt.Sprintf("%s-%d", ref.Service, ref.Incarnation))
}

// prepareService makes the root of an incarnation, and the files in it.
func (n *Node) prepareService(ctx context.Context, s service.Service, ref service.Ref) (supervise.Prepared, error) {
	desired, _, _ := n.desired.Get()
	var made supervise.Prepared
	if s.Payload != "" {
		p, ok := desired.Payload(s.Payload)
		if !ok {
			return made, fmt.Errorf("use payload %s: it is not defined any more", s.Payload)
		}
		var err error
		if made.Root, err = n.makeRoot(ctx, p, ref); err != nil {
			return made, err
		}
	}
	var err error
	if made.Folders, err = makeFolders(s, made.Root); err != nil {
		return made, err
	}
	facts := n.factsFor(ref)
	for _, f := range s.Files {
		text, err := f.Render(facts, desired.Secrets)
		if err != nil {
			return made, err
		}
		if err := payload.WriteFile(orMachine(made.Root), f, text); err != nil {
			return made, err
		}
	}
	if s.Core.Limit > 0 {
		if err := wantCore(ref, s.Core.Limit); err != nil {
			return made, err
		}
	}
	return made, ctx.Err()
}

// makeRoot is for one incarnation; what an earlier try left there is removed.
func (n *Node) makeRoot(ctx context.Context, p service.Payload, ref service.Ref) (string, error) {
	if err := n.loader.Load("overlay"); err != nil {
		return "", fmt.Errorf("make root: %w", err)
	}
	if err := n.payloads.Mount(); err != nil {
		return "", err
	}
	if err := payload.Remove(rootDir(ref)); err != nil {
		return "", err
	}
	var root string
	err := n.payloads.Unpack(ctx, p, func(files string) (err error) {
		root, err = payload.Root(files, rootDir(ref))
		return err
	})
	if err != nil {
		return "", err
	}
	return root, copyNames(root)
}

// wantedPayloads are those that a service may yet be started with.
func (n *Node) wantedPayloads() []service.Payload {
	desired, _, _ := n.desired.Get()
	return desired.Payloads
}

// copyNames gives a root the node's names, as they are now: without hosts(5)
// not even localhost is known.
func copyNames(root string) error {
	for _, file := range []string{hostsFile, resolvConf} {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("copy names: %w", err)
		}
		if err := payload.WriteFile(root, service.File{Path: file, Mode: 0o644}, text); err != nil {
			return err
		}
	}
	return nil
}

// releaseService removes an incarnation's root; the folders it shared stay.
func (n *Node) releaseService(ref service.Ref) error {
	return errors.Join(dropCore(ref), payload.Remove(rootDir(ref)))
}

func orMachine(root string) string {
	if root == "" {
		return "/"
	}
	return root
}

// makeFolders makes those that the service keeps across its incarnations. One
// without a root of its own has them where they are.
func makeFolders(s service.Service, root string) ([]proc.Folder, error) {
	if len(s.Folders) == 0 {
		return nil, nil
	}
	uid, gid, err := payload.Owner(orMachine(root), s.User)
	if err != nil {
		return nil, fmt.Errorf("make folders: %w", err)
	}
	var out []proc.Folder
	for _, path := range slices.Sorted(slices.Values(s.Folders)) { // one that lies in another comes after it
		if root == "" {
			if err := makeFolder(path, uid, gid); err != nil {
				return nil, fmt.Errorf("make folder %s: %w", path, err)
			}
			continue
		}
		at, err := payload.Folder(foldersDir, path, uid, gid)
		if err != nil {
			return nil, err
		}
		out = append(out, proc.Folder{Source: at, At: path})
	}
	return out, nil
}

func makeFolder(path string, uid, gid int) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return os.Chown(path, uid, gid)
}

// factsFor is what the files of an incarnation may know.
func (n *Node) factsFor(ref service.Ref) service.Facts {
	c := n.opened.now()
	f := service.Facts{
		Node:    service.NodeFacts{Name: n.params.Name, ID: c.NodeID, BootID: n.bootID},
		Service: service.ServiceFacts{Name: ref.Service, Incarnation: ref.Incarnation},
	}
	for _, a := range n.net.Status().Addresses {
		f.Node.Addresses = append(f.Node.Addresses, a.String())
	}
	if c.ClusterID != "" {
		f.Cluster = &service.ClusterFacts{ID: c.ClusterID, Endpoints: endpoints(c.Directory, n.params.Endpoints),
			CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.CA}))}
	}
	return f
}

// endpoints are the controllers' addresses by the directory that the cluster
// gave; without one, node.yaml's.
func endpoints(directory []byte, given []string) []string {
	d := new(clusterv1.Directory)
	if err := proto.Unmarshal(directory, d); err != nil {
		return given
	}
	var all []string
	for _, c := range d.GetControllers() {
		all = append(all, c.GetAddresses()...)
	}
	if len(all) == 0 {
		return given
	}
	return slices.Compact(all)
}
