package serving

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
)

// How long answers hold (the kubelet's defaults), and how many are kept of each kind.
const (
	tokenTTL   = 2 * time.Minute
	allowedTTL = 5 * time.Minute
	deniedTTL  = 30 * time.Second
	maxAnswers = 4096
	// maxAsking bounds how many questions are asked at once: strangers cause them.
	maxAsking = 16
	// askTime bounds how long a question takes.
	askTime = 10 * time.Second
	// maxToken bounds the length of a token, in bytes.
	maxToken = 64 << 10
)

// authority knows who clients are and what they may do, from the API's server.
type authority struct {
	cfg    Config
	tokens client.Resource[*authenticationv1.TokenReview]
	access client.Resource[*authorizationv1.SubjectAccessReview]
	asking chan struct{}
	// users has answers by token, of which nil is a stranger; rights by the question.
	users  answers[*authenticationv1.UserInfo]
	rights answers[bool]
	secret [32]byte // so that answers do not hold tokens
}

func newAuthority(cfg Config) *authority {
	a := &authority{
		cfg: cfg, tokens: client.Of[*authenticationv1.TokenReview](cfg.Client),
		access: client.Of[*authorizationv1.SubjectAccessReview](cfg.Client),
		asking: make(chan struct{}, maxAsking),
	}
	_, _ = rand.Read(a.secret[:]) // never fails
	return a
}

// authenticate returns the user of a request, by a client certificate or a bearer token; nil if there is none.
func (a *authority) authenticate(r *http.Request) (*authenticationv1.UserInfo, error) {
	who, refused := a.certified(r)
	if who != nil {
		return who, nil
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "bearer") || token == "" {
		return nil, refused
	}
	if len(token) > maxToken {
		return nil, errors.Join(refused, errors.New("the token is too long"))
	}
	who, err := a.known(r.Context(), token)
	return who, errors.Join(refused, err)
}

// certified returns the user whom a verified client certificate names.
func (a *authority) certified(r *http.Request) (*authenticationv1.UserInfo, error) {
	if a.cfg.ClientCAFile == "" || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	pem, err := os.ReadFile(a.cfg.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the CA of clients: %w", err)
	}
	opts := x509.VerifyOptions{
		Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if !opts.Roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the CA of clients in %s has no certificate", a.cfg.ClientCAFile)
	}
	leaf := r.TLS.PeerCertificates[0]
	for _, more := range r.TLS.PeerCertificates[1:] {
		opts.Intermediates.AddCert(more)
	}
	if _, err := leaf.Verify(opts); err != nil {
		return nil, fmt.Errorf("verifying a client's certificate: %w", err)
	}
	if leaf.Subject.CommonName == "" {
		return nil, errors.New("a client's certificate names no user")
	}
	groups := append([]string{}, leaf.Subject.Organization...)
	return &authenticationv1.UserInfo{Username: leaf.Subject.CommonName, Groups: append(groups, "system:authenticated")}, nil
}

// known asks whose token it is; nil for a stranger.
func (a *authority) known(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	key := a.key([]byte(token))
	if who, ok := a.users.get(key); ok {
		return who, nil
	}
	ctx, done, err := a.ask(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	answer, err := a.tokens.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking whose token it is: %w", err)
	}
	var who *authenticationv1.UserInfo
	if answer.Status.Authenticated {
		who = &answer.Status.User
	}
	a.users.put(key, who, tokenTTL)
	return who, nil
}

// allowed asks whether a user may use a subresource of the node.
func (a *authority) allowed(ctx context.Context, who *authenticationv1.UserInfo, verb, subresource, path string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: who.Username, UID: who.UID, Groups: who.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: a.cfg.NodeName,
		},
	}
	for name, values := range who.Extra {
		spec.Extra[name] = authorizationv1.ExtraValue(values)
	}
	question, err := json.Marshal(spec)
	if err != nil {
		return false, fmt.Errorf("asking for the rights to %s: %w", path, err)
	}
	key := a.key(question)
	if allowed, ok := a.rights.get(key); ok {
		return allowed, nil
	}
	ctx, done, err := a.ask(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	answer, err := a.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking for the rights to %s: %w", path, err)
	}
	ttl := deniedTTL
	if answer.Status.Allowed {
		ttl = allowedTTL
	}
	a.rights.put(key, answer.Status.Allowed, ttl)
	return answer.Status.Allowed, nil
}

// ask waits until a question may be asked. The caller calls done after it.
func (a *authority) ask(ctx context.Context) (bounded context.Context, done func(), err error) {
	bounded, cancel := context.WithTimeout(ctx, askTime)
	select {
	case a.asking <- struct{}{}:
		return bounded, func() {
			<-a.asking
			cancel()
		}, nil
	case <-bounded.Done():
		cancel()
		return nil, nil, fmt.Errorf("waiting to ask the apiserver: %w", bounded.Err())
	}
}

func (a *authority) key(of []byte) [sha256.Size]byte {
	sum := hmac.New(sha256.New, a.secret[:])
	_, _ = sum.Write(of) // never fails
	return [sha256.Size]byte(sum.Sum(nil))
}

// answers keeps up to maxAnswers answers, each for a time. Any goroutine may use it.
type answers[T any] struct {
	mu   sync.Mutex
	kept map[[sha256.Size]byte]answer[T]
}

type answer[T any] struct {
	value T
	until time.Time
}

func (a *answers[T]) get(key [sha256.Size]byte) (value T, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, ok := a.kept[key]
	if !ok || !time.Now().Before(found.until) {
		return value, false
	}
	return found.value, true
}

func (a *answers[T]) put(key [sha256.Size]byte, value T, ttl time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kept == nil {
		a.kept = map[[sha256.Size]byte]answer[T]{}
	}
	if len(a.kept) >= maxAnswers {
		for old, each := range a.kept {
			if !time.Now().Before(each.until) {
				delete(a.kept, old)
			}
		}
	}
	for old := range a.kept {
		if len(a.kept) < maxAnswers {
			break
		}
		delete(a.kept, old) // any
	}
	a.kept[key] = answer[T]{value, time.Now().Add(ttl)}
}
