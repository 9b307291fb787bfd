package join

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testToken = "abcdef.0123456789abcdef"
	day       = 24 * time.Hour
)

// authority is a CA for tests.
type authority struct {
	cert *x509.Certificate
	pem  []byte
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-365 * day), NotAfter: time.Now().Add(3650 * day),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key}
}

// leaf signs a certificate for a key.
func (a *authority) leaf(t *testing.T, template *x509.Certificate, public any) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// bootstrapFile writes a bootstrap kubeconfig.
func bootstrapFile(t *testing.T, server, token string, ca []byte) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "bootstrap-kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// plane is an in-memory API whose certificate requests a test decides.
type plane struct {
	t   *testing.T
	api *fake.Client
	ca  *authority
	dir string
	mu  sync.Mutex
	// as holds the caller of each call: "token", or the serial number of a certificate.
	as []string
	// life is the validity of certificates from five minutes ago on; subject changes their subjects.
	life    time.Duration
	subject func(*pkix.Name)
	fault   func(as string) error
}

// refuse makes calls fail with the result of fault.
func (p *plane) refuse(fault func(as string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// calls returns the number of calls and the last caller.
func (p *plane) calls() (n int, by string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.as) == 0 {
		return 0, ""
	}
	return len(p.as), p.as[len(p.as)-1]
}

// inBubble runs a test in a synctest bubble.
func inBubble(t *testing.T, test func(t *testing.T, p *plane)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &plane{
			t: t, api: fake.New(scheme.New()), ca: newAuthority(t, "ca"), dir: filepath.Join(t.TempDir(), "pki"),
			life: 365 * day, subject: func(*pkix.Name) {}, fault: func(string) error { return nil },
		}
		test(t, p)
	})
}

// joiner returns a joiner that calls the plane.
func (p *plane) joiner(node string) *Joiner {
	p.t.Helper()
	j := New(Config{
		NodeName: node, Dir: p.dir, Kubeconfig: bootstrapFile(p.t, "https://192.0.2.1:6443", testToken, p.ca.pem),
		Logger: slog.New(slog.NewTextHandler(p.t.Output(), nil)),
	})
	j.open = func(config *rest.Config) (client.Interface, error) {
		as := "token"
		if config.BearerToken == "" {
			as = firstCertificate(config.CertData).SerialNumber.String()
		} else if config.BearerToken != testToken {
			p.t.Errorf("the token is %q", config.BearerToken)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.as = append(p.as, as)
		if err := p.fault(as); err != nil {
			return nil, err
		}
		return p.api, nil
	}
	return j
}

// join joins in the background.
func (p *plane) join(j *Joiner) (ended chan error, stop func()) {
	ctx, cancel := context.WithCancel(p.t.Context())
	ended = make(chan error, 1)
	go func() {
		_, _, err := j.Join(ctx)
		ended <- err
	}()
	return ended, cancel
}

// joined joins, with every request signed, and runs until the test ends.
func (p *plane) joined(j *Joiner) {
	p.t.Helper()
	p.signAll()
	ended, _ := p.join(j)
	if err := <-ended; err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan error, 1)
	go func() { done <- j.Run(ctx) }()
	p.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Error(err)
		}
	})
}

func (p *plane) requests() []*csr {
	p.t.Helper()
	all, _, err := client.Of[*csr](p.api).List(context.WithoutCancel(p.t.Context()), "", metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// one returns the only request.
func (p *plane) one() *csr {
	p.t.Helper()
	synctest.Wait()
	all := p.requests()
	if len(all) != 1 {
		p.t.Fatalf("there are %d requests", len(all))
	}
	return all[0]
}

func (p *plane) decide(kind certificatesv1.RequestConditionType, reason, message string) {
	p.t.Helper()
	request := p.one()
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message,
	})
	p.api.Load(request)
}

// sign signs a request.
func (p *plane) sign(request *csr) {
	p.t.Helper()
	if request.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || len(request.Spec.Usages) != 2 {
		p.t.Errorf("the request has the spec %+v", request.Spec)
	}
	block, _ := pem.Decode(request.Spec.Request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || parsed.CheckSignature() != nil {
		p.t.Fatalf("the request cannot be read: %v", err)
	}
	subject := pkix.Name{CommonName: parsed.Subject.CommonName, Organization: parsed.Subject.Organization}
	p.subject(&subject)
	begin := time.Now().Add(-5 * time.Minute)
	request.Status.Certificate = p.ca.leaf(p.t, &x509.Certificate{
		Subject: subject, NotBefore: begin, NotAfter: begin.Add(p.life), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, parsed.PublicKey)
	p.api.Load(request)
}

// signAll signs every new request until the test ends.
func (p *plane) signAll() {
	ctx, cancel := context.WithCancel(p.t.Context())
	watch, err := client.Of[*csr](p.api).Watch(ctx, "", metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watch.ResultChan() {
			if request, ok := event.Object.(*csr); ok && len(request.Status.Certificate) == 0 && event.Type != "DELETED" {
				p.sign(request)
			}
		}
	}()
	p.t.Cleanup(func() { cancel(); watch.Stop(); <-done })
}

func (p *plane) current() *pair {
	p.t.Helper()
	found, err := load(filepath.Join(p.dir, currentFile))
	if err != nil || found == nil {
		p.t.Fatalf("the certificate is %v (%v)", found, err)
	}
	return found
}

func expect(t *testing.T, j *Joiner, want string) {
	t.Helper()
	synctest.Wait()
	err := j.Ready()
	if want == "" && err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("the reason is %v, want %q", err, want)
	}
}

func TestANodeJoins(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		j := p.joiner("n1")
		expect(t, j, "has not asked")
		ended, _ := p.join(j)
		expect(t, j, "waits to be approved")
		expect(t, j, "kubectl certificate approve "+p.one().Name)
		time.Sleep(time.Hour)
		p.decide(certificatesv1.CertificateApproved, "", "")
		time.Sleep(time.Minute)
		expect(t, j, "is approved and waits to be signed")
		p.sign(p.one())
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		expect(t, j, "")
		got := p.current()
		if got.leaf.Subject.String() != "CN=system:node:n1,O=system:nodes" {
			t.Errorf("the certificate is for %v", got.leaf.Subject)
		}
		entries, err := os.ReadDir(p.dir)
		if err != nil || len(entries) != 1 {
			t.Fatalf("the directory has %v (%v)", entries, err)
		}
		if info, err := entries[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("others may read it: %v (%v)", info.Mode(), err)
		}
		if info, err := os.Stat(p.dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("others may read the directory: %v (%v)", info.Mode(), err)
		}
		// A restarted joiner already has the certificate.
		calls, _ := p.calls()
		again, _ := p.join(p.joiner("n1"))
		err = <-again
		if n, by := p.calls(); err != nil || n != calls {
			t.Errorf("it called again, as %s (%v)", by, err)
		}
	})
}

// TestAnAgentThatIsStartedAgain: a restarted agent continues with its pending request.
func TestAnAgentThatIsStartedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		ended, stop := p.join(p.joiner("n1"))
		name := p.one().Name
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		ended, _ = p.join(p.joiner("n1"))
		time.Sleep(time.Minute)
		if got := p.one().Name; got != name {
			t.Errorf("it created another request")
		}
		p.sign(p.one())
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		kind certificatesv1.RequestConditionType
		want string
	}{
		{certificatesv1.CertificateDenied, "was denied (Stranger: who is that?)"},
		{certificatesv1.CertificateFailed, "could not be signed (Stranger: who is that?)"},
	} {
		inBubble(t, func(t *testing.T, p *plane) {
			j := p.joiner("n1")
			ended, _ := p.join(j)
			p.decide(tc.kind, "Stranger", "who is that?")
			time.Sleep(time.Hour)
			expect(t, j, tc.want)
			expect(t, j, "kubectl delete csr "+p.one().Name)
			p.api.Remove(p.one())
			time.Sleep(time.Minute)
			expect(t, j, "waits to be approved")
			p.sign(p.one())
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestARequestThatIsDeleted: the joiner creates a deleted request again.
func TestARequestThatIsDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		ended, _ := p.join(p.joiner("n1"))
		p.api.Remove(p.one())
		time.Sleep(time.Minute)
		p.sign(p.one())
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestRotation: the joiner replaces a certificate at 70 to 90 % of its life.
func TestRotation(t *testing.T) {
	for _, chance := range []float64{0, 0.5, 0.999} {
		inBubble(t, func(t *testing.T, p *plane) {
			p.life = 100 * time.Hour
			j := p.joiner("n1")
			j.chance = func() float64 { return chance }
			p.joined(j)
			last := p.current().leaf
			for range 3 {
				at := last.NotBefore.Add(time.Duration((0.7 + 0.2*chance) * float64(p.life)))
				time.Sleep(time.Until(at) - time.Second)
				if got := p.current().leaf.SerialNumber; got.Cmp(last.SerialNumber) != 0 {
					t.Fatalf("it is replaced before %v of its life", at.Sub(last.NotBefore))
				}
				time.Sleep(time.Minute)
				next := p.current().leaf
				if next.SerialNumber.Cmp(last.SerialNumber) == 0 {
					t.Fatalf("it is not replaced after %v of its life", at.Sub(last.NotBefore))
				}
				if next.PublicKey.(*ecdsa.PublicKey).Equal(last.PublicKey) {
					t.Error("the next certificate has the key of the last one")
				}
				if _, by := p.calls(); by != last.SerialNumber.String() {
					t.Errorf("it was requested by %s", by)
				}
				j.client.mu.Lock()
				shown := j.client.serial
				j.client.mu.Unlock()
				if shown != next.SerialNumber.String() {
					t.Errorf("%s is presented", shown)
				}
				expect(t, j, "")
				last = next
			}
		})
	}
}

// TestACertificateThatEnds: while the present certificate is valid the node is ready, whatever
// prevents the next one; after that it joins again with the token.
func TestACertificateThatEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.life = 100 * time.Hour
		j := p.joiner("n1")
		p.joined(j)
		first := p.current().leaf
		p.refuse(func(string) error { return errors.New("no answer") })
		time.Sleep(time.Until(first.NotAfter) - time.Second)
		expect(t, j, "")
		if n, by := p.calls(); by != first.SerialNumber.String() || n < 100 {
			t.Errorf("called by %s, %d times", by, n)
		}
		time.Sleep(5 * time.Minute)
		expect(t, j, "no answer")
		if _, by := p.calls(); by != "token" {
			t.Errorf("called by %s", by)
		}
		p.refuse(func(string) error { return nil })
		time.Sleep(5 * time.Minute)
		expect(t, j, "")
		if p.current().leaf.SerialNumber.Cmp(first.SerialNumber) == 0 {
			t.Error("it has the old certificate")
		}
	})
}

// TestACertificateThatHasEnded: an agent that was away for a long time joins again.
func TestACertificateThatHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.life = time.Hour
		p.signAll()
		ended, _ := p.join(p.joiner("n1"))
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * day)
		j := p.joiner("n1")
		p.joined(j)
		expect(t, j, "")
		if _, by := p.calls(); by != "token" || !time.Now().Before(p.current().leaf.NotAfter) {
			t.Errorf("called by %s, the certificate ends on %v", by, p.current().leaf.NotAfter)
		}
	})
}

// TestWithoutAToken: an agent whose token was taken away after it joined renews its certificate; once
// that has ended it waits for a token for some minutes, and then ends so that it is started with one.
func TestWithoutAToken(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.life = 100 * time.Hour
		p.signAll()
		joined, _ := p.join(p.joiner("n1"))
		if err := <-joined; err != nil {
			t.Fatal(err)
		}
		first := p.current().leaf
		j := p.joiner("n1")
		j.cfg.Kubeconfig = bootstrapFile(t, "https://192.0.2.1:6443", "", p.ca.pem)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if _, _, err := j.Join(ctx); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- j.Run(ctx) }()
		time.Sleep(time.Until(first.NotAfter) + time.Hour)
		expect(t, j, "")
		if _, by := p.calls(); by != first.SerialNumber.String() {
			t.Errorf("the renewal was asked for by %s", by)
		}

		p.refuse(func(string) error { return errors.New("nobody is there") })
		end := p.current().leaf.NotAfter
		time.Sleep(time.Until(end) + tokenless/2)
		expect(t, j, "has no bootstrap token; start the agent again with one")
		select {
		case err := <-ended:
			t.Fatalf("it ended at once: %v", err)
		default:
		}
		if err := <-ended; !errors.Is(err, errNoToken) {
			t.Errorf("it ended with %v", err)
		}
		if late := time.Since(end); late < tokenless || late > 2*tokenless+longestPause {
			t.Errorf("it ended %v after its certificate", late)
		}
	})
}

// TestACertificateThatIsNotTaken: the plane has a new CA, so the node joins again.
func TestACertificateThatIsNotTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		j := p.joiner("n1")
		p.joined(j)
		first := p.current().leaf.SerialNumber.String()
		j.wasRefused("7") // an earlier one: no effect
		expect(t, j, "")
		p.refuse(func(as string) error {
			if as == "token" {
				return errors.New("not now")
			}
			return nil
		})
		j.wasRefused(first)
		expect(t, j, "not now")
		j.wasTaken(first) // It was a mistake.
		time.Sleep(time.Minute)
		expect(t, j, "")
		if p.current().leaf.SerialNumber.String() != first {
			t.Error("it has another certificate")
		}
		p.refuse(func(string) error { return nil })
		j.wasRefused(first)
		time.Sleep(time.Minute)
		expect(t, j, "")
		if _, by := p.calls(); by != "token" || p.current().leaf.SerialNumber.String() == first {
			t.Errorf("called by %v", by)
		}
	})
}

// TestRejectedWithoutAToken: the plane has a new CA, and the agent has no token any more. It ends, and
// the next start, which has a token, joins anew instead of accepting the old certificate.
func TestRejectedWithoutAToken(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.signAll()
		joined, _ := p.join(p.joiner("n1"))
		if err := <-joined; err != nil {
			t.Fatal(err)
		}
		first := p.current().leaf.SerialNumber.String()
		j := p.joiner("n1")
		j.cfg.Kubeconfig = bootstrapFile(t, "https://192.0.2.1:6443", "", p.ca.pem)
		if _, _, err := j.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		j.wasRefused(first)
		if err := j.Run(t.Context()); !errors.Is(err, errNoToken) {
			t.Fatalf("it ended with %v", err)
		}
		again, _ := p.join(p.joiner("n1"))
		if err := <-again; err != nil {
			t.Fatal(err)
		}
		if _, by := p.calls(); by != "token" || p.current().leaf.SerialNumber.String() == first {
			t.Errorf("called by %s, and the certificate is the first one: %v", by, p.current().leaf.SerialNumber.String() == first)
		}
	})
}

func TestTheFolderIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.joined(p.joiner("n1"))
		for name, spoil := range map[string]func() error{
			"the directory": func() error { return os.RemoveAll(p.dir) },
			"the file":      func() error { return os.WriteFile(filepath.Join(p.dir, currentFile), []byte("x"), 0o600) },
		} {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			ended, _ := p.join(p.joiner("n1"))
			if err := <-ended; err != nil {
				t.Fatalf("without %s: %v", name, err)
			}
			if _, by := p.calls(); p.current().leaf.Subject.CommonName != "system:node:n1" || by != "token" {
				t.Errorf("without %s the certificate is %s, requested by %s", name, p.current().leaf.Subject, by)
			}
		}
	})
}

func TestAnotherNodesCertificate(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.joined(p.joiner("n1"))
		calls, _ := p.calls()
		_, _, err := p.joiner("n2").Join(t.Context())
		for _, want := range []string{`node "n2"`, `"system:node:n1"`, "--node-name", filepath.Join(p.dir, currentFile)} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		if n, _ := p.calls(); n != calls {
			t.Error("it requested another certificate")
		}
	})
}

func TestASignerThatDoesSomethingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		p.subject = func(name *pkix.Name) { name.CommonName = "system:node:n2" }
		j := p.joiner("n1")
		p.signAll()
		p.join(j)
		time.Sleep(time.Minute)
		expect(t, j, `is not the requested one: the certificate of another node: it is for "system:node:n2", and this node is "n1"`)
		if _, err := os.Stat(filepath.Join(p.dir, currentFile)); err == nil {
			t.Error("the certificate was stored")
		}
	})
}

// TestAClockThatIsAhead: certificates have expired before they arrive.
func TestAClockThatIsAhead(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		j := p.joiner("n1")
		by := &caller{config: &rest.Config{}}
		by.heard(-2 * time.Hour)
		p.life = time.Minute
		ended, _ := p.join(j)
		request := p.one()
		p.sign(request)
		_, key, err := pendingKey(p.dir)
		if err != nil {
			t.Fatal(err)
		}
		_, err = j.issued(by, request.Name, request.Status.Certificate, key)
		if err == nil || !strings.Contains(err.Error(), "2h0m0s ahead of that of the apiserver: set the clock") {
			t.Errorf("got %v", err)
		}
		time.Sleep(400 * time.Millisecond)
		expect(t, j, "the node asks for another")
		p.life = day
		p.signAll()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestWhatTheServerSays: each error of the server is reported in one sentence.
func TestWhatTheServerSays(t *testing.T) {
	resource := schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}
	for want, fault := range map[string]error{
		"does not take the bootstrap token abcdef (401 Unauthorized): it is wrong, was deleted or has expired; make one with `garboard token create` and put it into ": apierrors.NewUnauthorized("Unauthorized"),
		"the bootstrap token abcdef may not ask for a node's certificate at https://192.0.2.1:6443, since the ClusterRoleBindings":                                     apierrors.NewForbidden(resource, "", errors.New("no")),
		"answers: Too many": apierrors.NewTooManyRequests("Too many", 1),
		"the apiserver at https://192.0.2.1:6443 cannot be reached: no route": errors.New("no route"),
	} {
		inBubble(t, func(t *testing.T, p *plane) {
			p.api.Fail(func(client.Call) error { return fault })
			j := p.joiner("n1")
			ended, _ := p.join(j)
			time.Sleep(time.Hour)
			expect(t, j, want)
			if text := j.Ready().Error(); strings.Contains(text, testToken) || strings.Contains(text, "\n") {
				t.Errorf("it says %q", text)
			}
			if n, _ := p.calls(); n < 100 || n > 400 {
				t.Errorf("it tried %d times in an hour", n)
			}
			p.api.Fail(nil)
			p.signAll()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			expect(t, j, "")
		})
	}
}

// TestTheFileIsReadAgain: the joiner reads a new token from the file while the node waits.
func TestTheFileIsReadAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		j := p.joiner("n1")
		text, err := os.ReadFile(j.cfg.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(j.cfg.Kubeconfig); err != nil {
			t.Fatal(err)
		}
		ended, _ := p.join(j)
		time.Sleep(time.Minute)
		expect(t, j, "the bootstrap kubeconfig "+j.cfg.Kubeconfig+" cannot be used: ")
		if err := os.WriteFile(j.cfg.Kubeconfig, text, 0o600); err != nil {
			t.Fatal(err)
		}
		p.signAll()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestNATSDoesNotLetTheNodeIn checks a node that NATS does not let in and that reaches nothing else: it tries
// the bootstrap token, now and then, and keeps its certificate unless it gets another one.
func TestNATSDoesNotLetTheNodeIn(t *testing.T) {
	inBubble(t, func(t *testing.T, p *plane) {
		j := p.joiner("n1")
		var renewals atomic.Int32
		j.cfg.Renewed = func() { renewals.Add(1) }
		p.joined(j)
		first := p.current().leaf.SerialNumber.String()
		out := j.client.noting(transportFunc(func(*http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("waiting: %w", bus.ErrNotLetIn)
		}))
		fail := func() {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://x", nil)
			if err != nil {
				t.Fatal(err)
			}
			if answer, err := out.RoundTrip(r); err == nil {
				_ = answer.Body.Close()
				t.Fatal("the request succeeded")
			}
			synctest.Wait()
		}
		before, _ := p.calls()
		p.refuse(func(string) error { return errors.New("no apiserver answers") })
		for range 10 * 60 { // ten minutes
			fail()
			time.Sleep(time.Second)
		}
		calls, by := p.calls()
		if tries := calls - before; tries < 8 || tries > 12 || by != "token" {
			t.Errorf("in ten minutes it asked %d times, at last by %s", tries, by)
		}
		if got := p.current().leaf.SerialNumber.String(); got != first || j.Ready() != nil {
			t.Errorf("it has the certificate %s, want %s (%v)", got, first, j.Ready())
		}
		p.refuse(func(string) error { return nil })
		time.Sleep(doubtful)
		fail()
		time.Sleep(time.Minute)
		if got := p.current().leaf.SerialNumber.String(); got == first || renewals.Load() != 2 {
			t.Errorf("it has the certificate %s, the first was %s; it was renewed %d times", got, first, renewals.Load())
		}
	})
}
