package modules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// ErrUnknown says that neither the image nor the kernel has the module: build
// the image with it.
var ErrUnknown = errors.New("not in this image")

// options are given where the kernel's defaults are wrong for us: both modules
// make an interface of their own when loaded, which nobody asked for and which
// netcfg would have to tell from a configured one.
var options = map[string]string{
	"bonding": "max_bonds=0",
	"dummy":   "numdummies=0",
}

// asksFor are modules that another requests at run time by running
// /sbin/modprobe, which a node does not have. fat mounts with code page 437 and
// the kernel's default character set (fs/fat/inode.c; CONFIG_FAT_DEFAULT_*).
var asksFor = map[string][]string{
	"vfat": {"nls_cp437", "nls_ascii", "nls_iso8859-1", "nls_utf8"},
}

// slowLoad is when a module that is still loading is named: the longest that
// anything on a node is awaited in silence.
const slowLoad = 10 * time.Second

// kernel is what a Loader needs of the running kernel.
type kernel interface {
	// insert loads the file; nil also if the module is there already.
	insert(path, options string) error
	// modaliases lists the modalias of every device the kernel sees.
	modaliases() ([]string, error)
}

// Loader loads modules of one index. Loads are made one after the other, because
// the order of loading is the order of interface names. Safe for concurrent use.
type Loader struct {
	index  *Index
	kernel kernel
	log    *slog.Logger

	mu     sync.Mutex        // held while a module loads
	params map[string]string // of the command line, by module
	loaded map[string]bool
	failed map[string]string // what was logged, to say it once
	seen   map[string]bool   // modaliases already looked up
}

func newLoader(ix *Index, k kernel, log *slog.Logger) *Loader {
	return &Loader{
		index: ix, kernel: k, log: log,
		loaded: map[string]bool{}, failed: map[string]string{}, seen: map[string]bool{},
	}
}

// Load loads a module, given by its name or by one of its aliases
// ("fs-vfat", "rtnl-link-bond"), after everything it needs. A module that is
// there already, or built in, is success. An error wraps ErrUnknown or the
// kernel's errno.
func (l *Loader) Load(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.index.Module(name); !ok && !l.index.Builtin(name) {
		if byAlias := l.index.Match(name); len(byAlias) > 0 {
			name = byAlias[0]
		}
	}
	return l.load(name)
}

func (l *Loader) load(name string) error {
	order, err := l.index.Order(name)
	if err != nil {
		return fmt.Errorf("load %w", err)
	}
	for _, m := range order {
		for _, extra := range asksFor[m.Name] {
			if _, ok := l.index.Module(extra); ok {
				if err := l.load(extra); err != nil {
					return err
				}
			}
		}
		if err := l.insert(m); err != nil {
			return err
		}
	}
	return nil
}

func (l *Loader) insert(m Module) error {
	if l.loaded[m.Name] {
		return nil
	}
	slow := time.AfterFunc(slowLoad, func() {
		l.log.Warn(fmt.Sprintf("loading %s takes more than %s; other modules wait for it", m.Name, slowLoad))
	})
	defer slow.Stop()
	if err := l.kernel.insert(m.Path, strings.TrimSpace(options[m.Name]+" "+l.params[m.Name])); err != nil {
		return fmt.Errorf("load module %s: %w", m.Name, err)
	}
	l.loaded[m.Name] = true
	delete(l.failed, m.Name)
	l.log.Debug("loaded " + m.Name)
	return nil
}

// Coldplug loads what the devices present ask for, and again for the devices
// that those modules bring, until nothing new appears. A module that does not
// load is logged once and holds up no other; the error is about the search only.
func (l *Loader) Coldplug(ctx context.Context) error {
	for {
		aliases, err := l.kernel.modaliases()
		if err != nil {
			return fmt.Errorf("list devices: %w", err)
		}
		fresh := false
		for _, a := range aliases {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("load modules for devices: %w", err)
			}
			fresh = l.device(a) || fresh
		}
		if !fresh {
			return nil
		}
	}
}

// device loads what one modalias asks for, and says whether it is new to us.
func (l *Loader) device(modalias string) (fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[modalias] {
		return false
	}
	l.seen[modalias] = true
	for _, name := range l.index.Match(modalias) {
		if err := l.load(name); err != nil {
			l.report(name, err)
		}
	}
	return true
}

func (l *Loader) report(name string, err error) {
	if l.failed[name] == err.Error() {
		return
	}
	l.failed[name] = err.Error()
	l.log.Warn(err.Error() + ", going on without it")
}
