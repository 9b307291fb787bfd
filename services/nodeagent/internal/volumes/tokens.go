package volumes

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/nodeagent/internal/objectcache"
)

// maxTokenAge is the age at which a token is renewed whatever its lifetime (the kubelet's rule).
const maxTokenAge = 24 * time.Hour

// tokens caches the service account tokens of pods and renews each after 80 % of its lifetime.
type tokens struct {
	accounts client.Resource[*corev1.ServiceAccount]
	logger   *slog.Logger

	mu   sync.Mutex
	held map[string]token
}

type token struct {
	value           string
	issued, expires time.Time
	// asked is the time of the last failed renewal; logged reports that the expiry was logged.
	asked  time.Time
	logged bool
}

// While the apiserver is unavailable, a renewal is retried after tokenRetry and takes at most
// tokenPatience.
const (
	tokenRetry    = 10 * time.Second
	tokenPatience = 5 * time.Second
)

func newTokens(c client.Interface, logger *slog.Logger) *tokens {
	return &tokens{accounts: client.Of[*corev1.ServiceAccount](c), logger: logger, held: map[string]token{}}
}

func (t token) stale(now time.Time) bool {
	life := t.expires.Sub(t.issued)
	return now.After(t.issued.Add(life*8/10)) || now.After(t.issued.Add(maxTokenAge))
}

func (t *tokens) get(ctx context.Context, pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection) (string, error) {
	seconds := int64(3600)
	if source.ExpirationSeconds != nil {
		seconds = *source.ExpirationSeconds
	}
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	key := fmt.Sprintf("%s/%s/%s/%d", pod.UID, account, source.Audience, seconds)
	now := time.Now()
	t.mu.Lock()
	held, ok := t.held[key]
	t.mu.Unlock()
	if ok && (!held.stale(now) || now.Sub(held.asked) < tokenRetry) {
		return held.value, nil
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: &seconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
			},
		},
	}
	if source.Audience != "" {
		request.Spec.Audiences = []string{source.Audience}
	}
	answer := &authenticationv1.TokenRequest{}
	asking := ctx
	if ok {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, tokenPatience)
		defer cancel()
	}
	err := t.accounts.CreateSubresource(asking, pod.Namespace, account, "token", request, answer, metav1.CreateOptions{})
	if err != nil {
		// A token that is still valid will do. Without the apiserver even an expired one does: it
		// serves a restarting container better than none. The next sync retries.
		if ctx.Err() == nil && ok && (now.Before(held.expires) || objectcache.Away(err)) {
			t.keep(key, pod, held, err)
			return held.value, nil
		}
		return "", fmt.Errorf("failed to fetch token: %w", err)
	}
	fresh := token{value: answer.Status.Token, issued: now, expires: answer.Status.ExpirationTimestamp.Time}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[key] = fresh
	return fresh.value, nil
}

// keep records that a token could not be renewed, and logs it once the token has expired.
func (t *tokens) keep(key string, pod *corev1.Pod, held token, err error) {
	now := time.Now()
	held.asked = now
	if !held.logged && now.After(held.expires) {
		held.logged = true
		t.logger.Warn("a service account token expired and cannot be renewed; the pod keeps it",
			"namespace", pod.Namespace, "name", pod.Name, "expired", held.expires, "err", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[key] = held
}

func (t *tokens) forget(uid string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.held {
		if strings.HasPrefix(key, uid+"/") {
			delete(t.held, key)
		}
	}
}
