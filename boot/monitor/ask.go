package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"reveille/boot/service"
)

const (
	defaultTimeout = 2 * time.Second
	// maxHeader is far above what a service sends.
	maxHeader = 64 << 10
)

// ask takes one look, which ends by its timeout whatever the service does.
func (m *monitor) ask(ctx context.Context, p service.Probe) answer {
	timeout := orElse(p.Timeout, defaultTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var a answer
	switch {
	case p.Identity != nil:
		a = m.askIdentity(ctx, p.Identity.List)
	case p.HTTP != nil:
		a = m.askHTTP(ctx, p.HTTP.URL)
	case p.TCP != "":
		a = m.askTCP(ctx, p.TCP)
	case p.Notify:
		a = m.heard.answer(m.ready, orElse(p.Interval, defaultInterval))
	default:
		a = m.askExec(ctx, p.Exec)
	}
	if a.kind == unclear && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		a.text = fmt.Sprintf("no answer within %s", timeout)
	}
	if a.text != "" {
		a.text = ": " + a.text
	}
	a.text = subject(p) + a.text
	return a
}

// subject is what a probe asks, for people.
func subject(p service.Probe) string {
	switch {
	case p.Identity != nil:
		return "GET " + p.Identity.List
	case p.HTTP != nil:
		return "GET " + p.HTTP.URL
	case p.TCP != "":
		return "connect to " + p.TCP
	case p.Notify:
		return "sd_notify"
	}
	return "exec " + p.Exec[0]
}

// ErrUnasked is of Target.Exec: the program was not run. That says nothing about
// the service.
var ErrUnasked = errors.New("the probe was not run")

func (m *monitor) askExec(ctx context.Context, argv []string) answer {
	status, err := m.target.Exec(ctx, argv)
	switch {
	case errors.Is(err, ErrUnasked):
		return answer{kind: unasked, text: err.Error()}
	case err != nil:
		return answer{kind: unclear, text: err.Error()}
	case status != "":
		return answer{kind: sick, text: status}
	}
	return answer{kind: well}
}

func (m *monitor) askTCP(ctx context.Context, address string) answer {
	conn, err := m.dial(ctx, "tcp", address)
	if err != nil {
		return answer{kind: unclear, text: cause(err)}
	}
	conn.Close()
	return answer{kind: well}
}

func (m *monitor) askHTTP(ctx context.Context, url string) answer {
	status, _, err := m.get(ctx, url)
	switch {
	case err != nil:
		return answer{kind: unclear, text: cause(err)}
	case status < 200 || status > 399:
		return answer{kind: sick, text: statusText(status)}
	}
	return answer{kind: well}
}

func (m *monitor) askIdentity(ctx context.Context, url string) answer {
	status, body, err := m.get(ctx, url)
	if err != nil {
		return answer{kind: unclear, text: cause(err)}
	}
	a := understand(status, body)
	if a.list != nil {
		m.heard.generation.Store(a.list.Generation)
	}
	return a
}

// understand says what an answer to an Identity probe means by itself.
func understand(status int, body []byte) answer {
	switch {
	case status == http.StatusOK:
		l, err := parseList(body)
		if err != nil {
			return answer{kind: unclear, text: err.Error()}
		}
		return answer{kind: well, list: &l}
	case saysNoInstance(body), status == http.StatusGone, status == http.StatusFailedDependency:
		return answer{kind: noneHere, text: statusText(status) + ", no instance"}
	case status == http.StatusNotFound:
		return answer{kind: notFound, text: statusText(status)}
	}
	return answer{kind: unclear, text: statusText(status)}
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprint(status, " ", http.StatusText(status)))
}

// get asks over a connection of its own: one that was kept might belong to a
// process that is no longer there.
func (m *monitor) get(ctx context.Context, address string) (status int, body []byte, err error) {
	network, at, target, err := service.SplitURL(address)
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{
		Transport: &http.Transport{
			DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return m.dial(ctx, network, at) },
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1)); err != nil {
		return 0, nil, err
	}
	if len(body) > maxBody {
		return 0, nil, fmt.Errorf("an answer of more than %d bytes", maxBody)
	}
	return resp.StatusCode, body, nil
}

// cause is the end of an error's chain in words that are the same the next
// time: an error of a socket names ports, which never are.
func cause(err error) string {
	var errno syscall.Errno
	var broken *url.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before the answer"
	case errors.As(err, &broken):
		err = broken.Err
	}
	return clip(err.Error())
}

// clip makes text that may quote a stranger fit for a line.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if word(string(r)) || r == ' ' {
			return r
		}
		return '?'
	}, s)
	if len(s) > maxWord {
		return strings.ToValidUTF8(s[:maxWord], "") + "..."
	}
	return s
}
