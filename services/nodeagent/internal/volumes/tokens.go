package volumes

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
)

// maxTokenAge is when a token is renewed however long it lives (the kubelet's rule).
const maxTokenAge = 24 * time.Hour

// tokens keeps the service account tokens of pods and renews each when 80 % of its life is
// over.
type tokens struct {
	accounts client.Resource[*corev1.ServiceAccount]

	mu   sync.Mutex
	held map[string]token
}

type token struct {
	value           string
	issued, expires time.Time
}

func newTokens(c client.Interface) *tokens {
	return &tokens{accounts: client.Of[*corev1.ServiceAccount](c), held: map[string]token{}}
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
	if ok && !held.stale(now) {
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
	err := t.accounts.CreateSubresource(ctx, pod.Namespace, account, "token", request, answer, metav1.CreateOptions{})
	if err != nil {
		if ok && now.Before(held.expires) {
			return held.value, nil // It is still good; the next sync asks again.
		}
		return "", fmt.Errorf("failed to fetch token: %w", err)
	}
	fresh := token{value: answer.Status.Token, issued: now, expires: answer.Status.ExpirationTimestamp.Time}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[key] = fresh
	return fresh.value, nil
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
