package networktoken_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/nodeagent/internal/networktoken"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a plane in memory that gives tokens.
type world struct {
	*networktoken.Source
	t    *testing.T
	path string

	mu    sync.Mutex
	node  types.UID
	fault error
	// asked are the requests, and when.
	asked []authenticationv1.TokenRequestSpec
	times []time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	api := fake.New(scheme.New(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: nodeapi.NetworkAccountNamespace, Name: nodeapi.NetworkAccount},
	})
	w := &world{t: t, path: filepath.Join(t.TempDir(), "token")}
	api.Fail(func(call client.Call) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.times = append(w.times, time.Now())
		if request, ok := call.Body.(*authenticationv1.TokenRequest); ok {
			w.asked = append(w.asked, request.Spec)
		}
		return w.fault
	})
	w.Source = networktoken.New(networktoken.Config{
		NodeName: "a", Client: api, Node: w.uid, Path: w.path, Logger: slog.New(slog.DiscardHandler),
	})
	return w
}

func (w *world) uid() types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.node
}

// set sets the UID of the node's Node, and what requests fail with.
func (w *world) set(node types.UID, fault error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.node, w.fault = node, fault
}

// took returns when there were requests, since a time, and forgets them.
func (w *world) took(since time.Time) (after []time.Duration) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.times {
		after = append(after, at.Sub(since))
	}
	w.times = nil
	return after
}

// token returns the content of the file.
func (w *world) token() string {
	w.t.Helper()
	text, err := os.ReadFile(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// run runs Run until the test ends.
func (w *world) run() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("Run returned %v", err)
		}
	})
}

// TestFirstToken: the token waits for the Node, to which it is bound.
func TestFirstToken(t *testing.T) { synctest.Test(t, testFirstToken) }

func testFirstToken(t *testing.T) {
	w := newWorld(t)
	began, ended := time.Now(), make(chan error, 1)
	go func() { ended <- w.Obtain(t.Context()) }()
	time.Sleep(time.Minute)
	if got := w.took(began); len(got) != 0 {
		t.Errorf("asked after %v without a Node", got)
	}
	w.set("uid-1", nil)
	if err := <-ended; err != nil || time.Since(began) > time.Minute+15*time.Second {
		t.Fatalf("after %v: %v", time.Since(began), err)
	}
	info, err := os.Stat(w.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if len(w.asked) != 1 || len(w.asked[0].Audiences) != 0 || *w.asked[0].ExpirationSeconds != 3600 ||
		*w.asked[0].BoundObjectRef != (authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: "a", UID: "uid-1"}) {
		t.Errorf("asked %+v", w.asked)
	}
}

func TestObtainRetries(t *testing.T) { synctest.Test(t, testObtainRetries) }

func testObtainRetries(t *testing.T) {
	w := newWorld(t)
	w.set("uid-1", errors.New("out of order"))
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.Obtain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	const ms = time.Millisecond
	if got, want := w.took(began), []time.Duration{0, 500 * ms, 1500 * ms, 3500 * ms, 7500 * ms, 15500 * ms, 30500 * ms, 45500 * ms}; !slices.Equal(got, want) {
		t.Errorf("asked after %v, want %v", got, want)
	}
	if _, err := os.Stat(w.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file: %v", err)
	}
}

func TestRenewal(t *testing.T) { synctest.Test(t, testRenewal) }

func testRenewal(t *testing.T) {
	w := newWorld(t)
	w.set("uid-1", nil)
	began := time.Now()
	if err := w.Obtain(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := w.token()
	w.took(began)
	w.run()
	time.Sleep(2 * time.Hour)
	if got, want := w.took(began), []time.Duration{48 * time.Minute, 96 * time.Minute}; !slices.Equal(got, want) {
		t.Errorf("asked after %v, want %v", got, want)
	}
	second := w.token()
	if second == first {
		t.Error("the token is the same")
	}

	// Another Node of the name needs another token, soon.
	changed := time.Now()
	w.set("uid-2", nil)
	time.Sleep(10 * time.Second)
	if got := w.took(changed); len(got) != 1 || w.token() == second || w.asked[len(w.asked)-1].BoundObjectRef.UID != "uid-2" {
		t.Errorf("asked after %v", got)
	}
	w.set("", nil)
	time.Sleep(time.Minute)
	if got := w.took(changed); len(got) != 0 {
		t.Errorf("without a Node: asked after %v", got)
	}

	// It fails for some time.
	w.set("uid-3", errors.New("out of order"))
	changed = time.Now()
	time.Sleep(5 * time.Minute)
	got := w.took(changed)
	var pauses []time.Duration
	for i := range got[1:] {
		pauses = append(pauses, got[i+1]-got[i])
	}
	const s = time.Second
	if want := []time.Duration{10 * s, 20 * s, 40 * s, 60 * s, 60 * s}; !slices.Equal(pauses[:min(len(pauses), len(want))], want) {
		t.Errorf("the pauses are %v, want %v …", pauses, want)
	}
	w.set("uid-3", nil)
	changed = time.Now()
	time.Sleep(5 * time.Minute)
	if got := w.took(changed); len(got) != 1 {
		t.Errorf("after the repair: asked after %v", got)
	}
}

// answering is a client whose tokens are as a test wants them.
type answering struct {
	client.Interface
	edit func(*authenticationv1.TokenRequest)
}

func (a answering) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	err := a.Interface.Do(ctx, call, into)
	if answer, ok := into.(*authenticationv1.TokenRequest); ok {
		a.edit(answer)
	}
	return err
}

// TestAnswers: the lifetime is the one that was granted, whatever the apiserver's clock says. An answer without
// a token is none.
func TestAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*authenticationv1.TokenRequest)
		want time.Duration // until the renewal; 0 if there is no token
	}{
		"the apiserver's clock is an hour ahead": {func(answer *authenticationv1.TokenRequest) {
			answer.Status.ExpirationTimestamp.Time = answer.Status.ExpirationTimestamp.Add(time.Hour)
		}, 48 * time.Minute},
		"its clock is an hour behind": {func(answer *authenticationv1.TokenRequest) {
			answer.Status.ExpirationTimestamp.Time = answer.Status.ExpirationTimestamp.Add(-time.Hour)
		}, 48 * time.Minute},
		"a shorter lifetime": {func(answer *authenticationv1.TokenRequest) {
			*answer.Spec.ExpirationSeconds = 600
		}, 8 * time.Minute},
		"a year": {func(answer *authenticationv1.TokenRequest) {
			*answer.Spec.ExpirationSeconds = 365 * 24 * 3600
		}, 48 * time.Minute},
		"only an end": {func(answer *authenticationv1.TokenRequest) {
			answer.Spec.ExpirationSeconds, answer.Status.ExpirationTimestamp.Time = nil, time.Now().Add(1000*time.Second)
		}, 800 * time.Second},
		"nothing": {func(answer *authenticationv1.TokenRequest) {
			*answer = authenticationv1.TokenRequest{}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.set("uid-1", nil)
				api := fake.New(scheme.New(), &corev1.ServiceAccount{
					ObjectMeta: metav1.ObjectMeta{Namespace: nodeapi.NetworkAccountNamespace, Name: nodeapi.NetworkAccount},
				})
				var asked []time.Time
				w.Source = networktoken.New(networktoken.Config{
					NodeName: "a", Node: w.uid, Path: w.path, Logger: slog.New(slog.DiscardHandler),
					Client: answering{api, func(answer *authenticationv1.TokenRequest) {
						asked = append(asked, time.Now())
						tc.edit(answer)
					}},
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := w.Obtain(ctx)
				if tc.want == 0 {
					if _, missing := os.Stat(w.path); err == nil || missing == nil {
						t.Errorf("got %v, the file: %v", err, missing)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				w.run()
				time.Sleep(2*tc.want - time.Second)
				synctest.Wait()
				if len(asked) != 2 || asked[1].Sub(asked[0]).Round(10*time.Second) != tc.want {
					t.Errorf("asked at %v, want again after %v", asked, tc.want)
				}
			})
		})
	}
}

// TestAFileThatCannotBeWritten: the token is asked for again.
func TestAFileThatCannotBeWritten(t *testing.T) { synctest.Test(t, testAFileThatCannotBeWritten) }

func testAFileThatCannotBeWritten(t *testing.T) {
	w := newWorld(t)
	w.set("uid-1", nil)
	if err := os.MkdirAll(filepath.Join(w.path, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Obtain(t.Context()) }()
	time.Sleep(time.Second)
	synctest.Wait()
	if err := os.RemoveAll(w.path); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || w.token() == "" || len(w.asked) < 2 {
		t.Errorf("%v after %d requests", err, len(w.asked))
	}
}
