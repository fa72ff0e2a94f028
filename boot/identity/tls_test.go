package identity

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// handshake runs both sides over a pipe and returns their errors.
func handshake(t *testing.T, client, server *tls.Config) (clientErr, serverErr error) {
	t.Helper()
	a, b := net.Pipe()
	end := time.Now().Add(10 * time.Second)
	if err := errors.Join(a.SetDeadline(end), b.SetDeadline(end)); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		s := tls.Server(b, server)
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		_ = b.Close()
		served <- err
	}()
	c := tls.Client(a, client)
	clientErr = c.Handshake()
	if clientErr == nil { // TLS 1.3: a refused client certificate shows at the first read
		_, clientErr = io.ReadFull(c, make([]byte, 1))
	}
	_ = a.Close()
	return clientErr, <-served
}

func at(tm time.Time) Clock { return func() (time.Time, bool) { return tm, true } }

func TestTLS(t *testing.T) {
	ca, other := testCA(t, "c1"), testCA(t, "c2")
	now := time.Now()
	past, future := time.Date(2011, 11, 11, 11, 11, 11, 0, time.UTC), now.AddDate(50, 0, 0)
	cert := func(a *Authority, role Role, name string) tls.Certificate {
		key := testKey(t)
		return Certificate(issue(t, a, role, name, key, now), a.Certificate, key)
	}
	controller, node, op := cert(ca, RoleController, "a"), cert(ca, RoleNode, "n1"), cert(ca, RoleOperator, "op")
	pin := PinOf(ca.Certificate)
	wantController, wantN1 := Peer{Role: RoleController}, Peer{ClusterID: "c1", Role: RoleNode, Name: "n1"}
	serve := func(c tls.Certificate, clock Clock) *tls.Config { return ServerTLS(ca.Certificate, c, clock) }

	// Anybody can show our CA's certificate; it must also have issued the leaf.
	besideOurCA := cert(other, RoleController, "a")
	besideOurCA.Certificate = [][]byte{besideOurCA.Certificate[0], ca.Certificate.Raw}

	for _, tc := range []struct {
		name           string
		client, server *tls.Config
		clientWant     string // part of its error; empty: none
		serverWant     string
	}{
		{"pin", PinnedClientTLS(pin, nil), serve(controller, nil), "", ""},
		{"pin, clock unknown", PinnedClientTLS(pin, unknownTime), serve(controller, nil), "", ""},
		{"pin, clock in the past", PinnedClientTLS(pin, at(past)), serve(controller, nil),
			"certificate of controller a is not valid before " + now.Add(-early).UTC().Format(time.RFC3339) + ", local time is 2011-11-11T11:11:11Z", ""},
		{"pin, clock in the future", PinnedClientTLS(pin, at(future)), serve(controller, nil), "certificate of controller a expired at", ""},
		{"wrong pin", PinnedClientTLS(PinOf(other.Certificate), nil), serve(controller, nil), "not the one that cluster.ca pins: it is " + pin.Short() + ", cluster.ca says " + PinOf(other.Certificate).Short(), ""},
		{"pin, but a node", PinnedClientTLS(pin, nil), serve(node, nil), "got reveille://c1/node/n1, want controller", ""},
		{"pin, our CA shown beside a foreign leaf", PinnedClientTLS(pin, nil), serve(besideOurCA, nil), "unknown authority", ""},
		{"mutual", ClientTLS(ca.Certificate, node, wantController, nil), serve(controller, nil), "", ""},
		{"mutual, foreign server", ClientTLS(other.Certificate, node, wantController, nil), serve(controller, nil), "unknown authority", ""},
		{"mutual, foreign client", ClientTLS(ca.Certificate, cert(other, RoleNode, "n1"), wantController, nil), serve(controller, nil), "bad certificate", "unknown authority"},
		{"mutual, server's clock in the past", ClientTLS(ca.Certificate, node, wantController, nil), serve(controller, at(past)), "bad certificate", "certificate of node n1 is not valid before"},
		{"mutual, server's clock unknown", ClientTLS(ca.Certificate, node, wantController, nil), serve(controller, unknownTime), "", ""},
		{"controller to node", ClientTLS(ca.Certificate, controller, wantN1, nil), serve(node, nil), "", ""},
		{"controller to another node", ClientTLS(ca.Certificate, controller, Peer{Role: RoleNode, Name: "n2"}, nil), serve(node, nil), "want node n2", ""},
		{"an operator cannot serve", ClientTLS(ca.Certificate, node, Peer{Role: RoleOperator}, nil), serve(op, nil), "incompatible key usage", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			clientErr, serverErr := handshake(t, tc.client, tc.server)
			check := func(side, want string, err error) {
				if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s: got error %v, want %q", side, err, want)
				}
			}
			check("client", tc.clientWant, clientErr)
			if tc.clientWant == "" || tc.serverWant != "" {
				check("server", tc.serverWant, serverErr)
			}
		})
	}
}

func TestTLSIs13Only(t *testing.T) {
	ca := testCA(t, "c1")
	key := testKey(t)
	server := ServerTLS(ca.Certificate, Certificate(issue(t, ca, RoleController, "a", key, time.Now()), ca.Certificate, key), nil)
	client := PinnedClientTLS(PinOf(ca.Certificate), nil)
	client.MinVersion, client.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if clientErr, _ := handshake(t, client, server); clientErr == nil {
		t.Error("TLS 1.2 accepted")
	}
}
