// Package vm is a server of virtual machines in memory: instances with states
// and generations, a long poll for their changes, and faults on demand.
//
//	GET    /instances                    the list, as an identity probe wants it
//	GET    /instances/watch?generation=N the same, once it has changed since N
//	PUT    /instance/ID                  make one (201), or find it there (200)
//	GET    /instance/ID                  one
//	GET    /instance/ID/state-monitor?generation=N   the same, once it has changed since N
//	PUT    /instance/ID/state?to=STATE   running, rebooting, stopped, destroyed
//	PUT    /fault?kind=KIND&for=SECONDS  how the GETs of /instances are to fail
//	PUT    /die?signal=NUMBER            this process sends itself the signal
//
// Whoever asks for an instance that it does not have, or for any when it has
// none, is told so with an error code: NoInstance.
package vm

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Instance is one machine. It is never taken off the list: one that was
// destroyed stays there with that state, until the process ends.
type Instance struct {
	ID         string `json:"id"`
	Generation uint64 `json:"generation"` // counts the changes of State
	State      string `json:"state"`
}

// List is the answer to GET /instances.
type List struct {
	Server     string     `json:"server"`     // of this process alone
	Generation uint64     `json:"generation"` // counts all changes
	Instances  []Instance `json:"instances"`
}

// Server is an http.Handler.
type Server struct {
	name  string
	empty int // status when there is no instance
	mux   *http.ServeMux
	fault fault

	mu         sync.Mutex
	generation uint64
	instances  map[string]*Instance
	changed    chan struct{} // closed at the next change
}

// New is a server that has no instance yet, with a name that no other has.
func New(empty int) *Server {
	s := &Server{name: "vm-" + rand.Text()[:8], empty: empty, mux: http.NewServeMux(), instances: map[string]*Instance{}, changed: make(chan struct{})}
	s.mux.HandleFunc("GET /instances", s.fault.before(s.list))
	s.mux.HandleFunc("GET /instances/watch", s.fault.before(s.watch))
	s.mux.HandleFunc("PUT /instance/{id}", s.put)
	s.mux.HandleFunc("GET /instance/{id}", s.get)
	s.mux.HandleFunc("GET /instance/{id}/state-monitor", s.monitor)
	s.mux.HandleFunc("PUT /instance/{id}/state", s.setState)
	s.mux.HandleFunc("PUT /fault", s.fault.set)
	s.mux.HandleFunc("PUT /die", die)
	return s
}

// Name is what this process calls itself.
func (s *Server) Name() string { return s.name }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// snapshot is the list, and what is closed when it changes.
func (s *Server) snapshot() (List, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := List{Server: s.name, Generation: s.generation, Instances: []Instance{}}
	for _, i := range s.instances {
		l.Instances = append(l.Instances, *i)
	}
	slices.SortFunc(l.Instances, func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	return l, s.changed
}

func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	l, _ := s.snapshot()
	if len(l.Instances) == 0 {
		s.noInstance(w)
		return
	}
	answer(w, http.StatusOK, l)
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	since, err := generation(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, "Invalid", err.Error())
		return
	}
	for {
		l, changed := s.snapshot()
		if l.Generation != since {
			answer(w, http.StatusOK, l)
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

func (s *Server) put(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.mu.Lock()
	i, found := s.instances[id]
	if !found {
		i = &Instance{ID: id, State: "running"}
		s.instances[id] = i
		s.change(i)
	}
	made := *i
	s.mu.Unlock()
	if found {
		answer(w, http.StatusOK, made)
		return
	}
	fmt.Printf("instance %s runs\n", id)
	answer(w, http.StatusCreated, made)
}

// change counts a change of an instance; s.mu is held.
func (s *Server) change(i *Instance) {
	i.Generation++
	s.generation++
	close(s.changed)
	s.changed = make(chan struct{})
}

// find is the instance that the path names, and what is closed at the next change.
func (s *Server) find(r *http.Request) (Instance, <-chan struct{}, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.instances[r.PathValue("id")]
	if i == nil {
		return Instance{}, nil, false
	}
	return *i, s.changed, true
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	i, _, found := s.find(r)
	if !found {
		s.noInstance(w)
		return
	}
	answer(w, http.StatusOK, i)
}

func (s *Server) monitor(w http.ResponseWriter, r *http.Request) {
	since, err := generation(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, "Invalid", err.Error())
		return
	}
	for {
		i, changed, found := s.find(r)
		switch {
		case !found:
			s.noInstance(w)
			return
		case i.Generation != since:
			answer(w, http.StatusOK, i)
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

func (s *Server) setState(w http.ResponseWriter, r *http.Request) {
	to := r.FormValue("to")
	if !slices.Contains([]string{"running", "rebooting", "stopped", "destroyed"}, to) {
		refuse(w, http.StatusBadRequest, "Invalid", "want a state: running, rebooting, stopped, destroyed")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.instances[r.PathValue("id")]
	if i == nil {
		s.noInstance(w)
		return
	}
	i.State = to
	s.change(i)
	fmt.Printf("instance %s is %s\n", i.ID, to)
	answer(w, http.StatusOK, *i)
}

// die does not answer if the signal is deadly.
func die(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.FormValue("signal"))
	if err == nil {
		err = syscall.Kill(os.Getpid(), syscall.Signal(n))
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "Invalid", err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]int{"signal": n})
}

func (s *Server) noInstance(w http.ResponseWriter) {
	code := "NoInstance"
	if s.empty == http.StatusInternalServerError {
		code = "Internal" // older servers had no code for it, only the text
	}
	refuse(w, s.empty, code, "server not initialized (no instance)")
}

func generation(r *http.Request) (uint64, error) {
	n, err := strconv.ParseUint(r.FormValue("generation"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("generation: want a number")
	}
	return n, nil
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	answer(w, status, map[string]string{"error_code": code, "message": message})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // who left does not read it
}

// fault is how the server fails those who ask for its list.
type fault struct {
	mu    sync.Mutex
	kind  string
	until time.Time // zero: until another is set
}

// Kinds are the faults: an answer that is no answer, errors, an answer 30 s
// late, none at all, a connection that ends without one.
var Kinds = []string{"none", "garbage", "500", "424", "410", "404", "delay", "hang", "close"}

func (f *fault) set(w http.ResponseWriter, r *http.Request) {
	kind := r.FormValue("kind")
	seconds, err := strconv.ParseFloat(cmp.Or(r.FormValue("for"), "0"), 64)
	if err != nil || !slices.Contains(Kinds, kind) {
		refuse(w, http.StatusBadRequest, "Invalid", fmt.Sprintf("want a kind of %v, and seconds in for", Kinds))
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kind, f.until = kind, time.Time{}
	if seconds > 0 {
		f.until = time.Now().Add(time.Duration(seconds * float64(time.Second)))
	}
	fmt.Printf("fault %s for %gs\n", kind, seconds)
	answer(w, http.StatusOK, map[string]string{"fault": kind})
}

func (f *fault) now() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.until.IsZero() && time.Now().After(f.until) {
		f.kind = ""
	}
	return f.kind
}

// late is how long an answer takes that is delayed.
const late = 30 * time.Second

func (f *fault) before(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch kind := f.now(); kind {
		case "garbage":
			_, _ = w.Write([]byte("\x00\xff{\"instances\": 7")) // who left does not read it
		case "500", "424", "410", "404":
			status, _ := strconv.Atoi(kind)
			refuse(w, status, "Fault", "ordered to fail")
		case "delay":
			select {
			case <-r.Context().Done():
			case <-time.After(late):
				next(w, r)
			}
		case "hang":
			<-r.Context().Done()
		case "close":
			panic(http.ErrAbortHandler)
		default:
			next(w, r)
		}
	}
}
