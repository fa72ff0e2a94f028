// Package payload makes a root file system for a service of an archive or an
// OCI image that lies on the node: verified by its digest, unpacked once into
// memory, and shared, read-only, by all incarnations that use it.
package payload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"reveille/boot/service"
)

// Store keeps payloads unpacked, each in a folder that is called by its digest.
// The folder appears when it is whole, and goes when there must be room for
// another and nobody uses or wants it.
type Store struct {
	Dir    string // a file system with owners and links; the state partition is none
	Log    *slog.Logger
	Wanted func() []service.Payload // that may be used again; nil: none

	mu   sync.Mutex
	busy map[string]chan struct{} // by digest: closed when somebody has done with it
}

// maxManifest is what registries take.
const maxManifest = 4 << 20

// Unpack has use called with the folder of a payload's files, which stays when
// use has made it the lower layer of a root (Root). Whoever asks for what is
// being unpacked waits for it, and nobody else does.
func (s *Store) Unpack(ctx context.Context, p service.Payload, use func(files string) error) error {
	name := strings.TrimPrefix(p.Digest, "sha256:")
	dir := filepath.Join(s.Dir, name)
	for {
		done := s.begin(name)
		if done == nil {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-done:
		}
	}
	defer s.end(name)
	if _, err := os.Stat(dir); err == nil {
		return use(dir)
	}
	if err := s.sweep(); err != nil {
		s.Log.Warn("make room for payload " + p.Name + ": " + err.Error() + ", going on")
	}
	next := s.part(name)
	if err := s.unpack(ctx, p, next); err != nil {
		return errors.Join(fmt.Errorf("unpack payload %s from %s: %w", p.Name, p.Source, err), os.RemoveAll(next))
	}
	if err := os.Rename(next, dir); err != nil {
		return fmt.Errorf("unpack payload %s: %w", p.Name, err)
	}
	return use(dir)
}

// part is where a payload lies that is not whole.
func (s *Store) part(name string) string { return filepath.Join(s.Dir, "."+name+".new") }

// sweep removes payloads that no root has and nobody wants, and parts that an
// agent left which was killed.
func (s *Store) sweep() error {
	entries, err := os.ReadDir(s.Dir)
	for _, e := range entries {
		name := strings.TrimSuffix(strings.TrimPrefix(e.Name(), "."), ".new")
		if s.begin(name) != nil {
			continue // somebody is at it
		}
		if whole := name == e.Name(); !whole || !s.isWanted(name) && !hasRoot(filepath.Join(s.Dir, name)) {
			err = errors.Join(err, s.remove(name, whole))
		}
		s.end(name)
	}
	return err
}

func (s *Store) isWanted(name string) bool {
	return s.Wanted != nil && slices.ContainsFunc(s.Wanted(), func(p service.Payload) bool { return p.Digest == "sha256:"+name })
}

// remove takes the folder's name away first: what is cut off is not whole.
func (s *Store) remove(name string, whole bool) error {
	if err := os.RemoveAll(s.part(name)); err != nil || !whole {
		return err
	}
	if err := os.Rename(filepath.Join(s.Dir, name), s.part(name)); err != nil {
		return err
	}
	s.Log.Info("payload with digest sha256:" + name + " removed, no service uses it any more")
	return os.RemoveAll(s.part(name))
}

// hasRoot tells whether a payload is the lower layer of an overlay, by
// mountinfo (proc_pid_mountinfo(5)): also of a root that an agent before made.
func hasRoot(files string) bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	return err != nil || bytes.Contains(mounts, []byte("lowerdir="+files+","))
}

// begin returns nil to whoever is to do the work, else what to wait for.
func (s *Store) begin(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy == nil {
		s.busy = map[string]chan struct{}{}
	}
	if done := s.busy[name]; done != nil {
		return done
	}
	s.busy[name] = make(chan struct{})
	return nil
}

func (s *Store) end(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.busy[name])
	delete(s.busy, name)
}

func (s *Store) unpack(ctx context.Context, p service.Payload, next string) error {
	if err := os.RemoveAll(next); err != nil { // of an agent that was killed
		return err
	}
	if err := os.Mkdir(next, 0o755); err != nil {
		return err
	}
	t, err := openTree(next)
	if err != nil {
		return err
	}
	defer t.close()
	u := unpacking{t, &progress{name: p.Name}}
	skips, err := u.apply(ctx, p, s.Log)
	if err != nil {
		return err
	}
	s.Log.Info(fmt.Sprintf("payload %s unpacked, digest %s", p.Name, p.Digest))
	if skips > 0 {
		s.Log.Info(fmt.Sprintf("payload %s: %d device nodes and FIFOs left out, /dev is the machine's", p.Name, skips))
	}
	return nil
}

// Mount gives the store a file system of its own: payloads may fill at most half
// of the memory, and never /run, which the agent writes to. Again is harmless.
func (s *Store) Mount() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	var at, above unix.Stat_t
	if err := errors.Join(unix.Stat(s.Dir, &at), unix.Stat(filepath.Dir(s.Dir), &above)); err != nil {
		return err
	}
	if at.Dev != above.Dev {
		return nil
	}
	if err := unix.Mount("payloads", s.Dir, "tmpfs", unix.MS_NODEV, "mode=0700,size=50%"); err != nil {
		return fmt.Errorf("mount %s: %w", s.Dir, err)
	}
	return nil
}

// unpacking is a payload on its way into a tree.
type unpacking struct {
	tree     *tree
	progress *progress
}

func (u unpacking) apply(ctx context.Context, p service.Payload, log *slog.Logger) (skipped, error) {
	info, err := os.Stat(p.Source)
	if err != nil {
		return 0, err
	}
	log.Info(fmt.Sprintf("payload %s: unpacking %s", p.Name, p.Source))
	defer u.progress.tell(log)()
	if info.IsDir() {
		return u.applyLayout(ctx, p)
	}
	u.progress.total.Store(info.Size())
	return u.applyBlob(ctx, p.Source, p.Digest)
}

// applyBlob unpacks one archive whose digest is known.
func (u unpacking) applyBlob(ctx context.Context, file, digest string) (skipped, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	v := verify(ctx, u.progress.of(f))
	r, end, err := decompress(v)
	if err != nil {
		return 0, err
	}
	defer end()
	skips, err := u.tree.apply(r)
	// What is not what was meant is said before what it led to.
	if wrong := v.check(digest); wrong != nil {
		return 0, wrong
	}
	return skips, err
}

// applyLayout unpacks the image of an OCI layout that has the payload's digest.
func (u unpacking) applyLayout(ctx context.Context, p service.Payload) (skipped, error) {
	blob := func(digest string) string {
		return filepath.Join(p.Source, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))
	}
	text, err := readVerified(ctx, blob(p.Digest), p.Digest)
	if err != nil {
		return 0, err
	}
	layers, manifest, err := parseDocument(text)
	if manifest != nil && err == nil {
		if text, err = readVerified(ctx, blob(manifest.Digest), manifest.Digest); err != nil {
			return 0, err
		}
		if layers, manifest, err = parseDocument(text); manifest != nil {
			return 0, errors.New("parse index: an index of indexes")
		}
	}
	if err != nil {
		return 0, err
	}
	for _, l := range layers {
		u.progress.total.Add(l.Size)
	}
	var skips skipped
	for _, l := range layers {
		n, err := u.applyBlob(ctx, blob(l.Digest), l.Digest)
		if err != nil {
			return 0, fmt.Errorf("layer %s: %w", l.Digest, err)
		}
		skips += n
	}
	return skips, nil
}

func readVerified(ctx context.Context, file, digest string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	v := verify(ctx, io.LimitReader(f, maxManifest))
	text, err := io.ReadAll(v)
	if err != nil {
		return nil, err
	}
	return text, v.check(digest)
}
