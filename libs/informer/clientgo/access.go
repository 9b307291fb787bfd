package clientgo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// allowedFor is how long a permission is cached; a refusal is not cached.
	allowedFor = time.Minute
	// maxAllowed bounds the cache.
	maxAllowed = 4096
	// maxReview bounds the response to a review, in bytes.
	maxReview = 1 << 20
	// reviewsPath is the path at which users ask for their own permissions.
	reviewsPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
)

// access asks the apiserver what a request's user may do.
type access struct {
	prefix   string
	next     http.RoundTripper
	patience time.Duration

	mu      sync.Mutex
	allowed map[string]time.Time // permission by request, with its expiry
}

func newAccess(prefix string, next http.RoundTripper, patience time.Duration) *access {
	return &access{prefix: prefix, next: next, patience: patience, allowed: map[string]time.Time{}}
}

// may reports whether the user of req may do what r asks for; false if that cannot be determined.
func (a *access) may(req *http.Request, r *request) bool {
	attributes := &authorizationv1.ResourceAttributes{
		Namespace: r.namespace, Verb: r.verb(), Group: r.kind.Group, Version: r.kind.Version, Resource: r.kind.Resource, Name: r.selected.name,
	}
	if r.selected.labelText != "" {
		attributes.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: r.selected.labelText}
	}
	if r.selected.fieldText != "" {
		attributes.FieldSelector = &authorizationv1.FieldSelectorAttributes{RawSelector: r.selected.fieldText}
	}
	body, err := json.Marshal(&authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: authorizationv1.SchemeGroupVersion.String()},
		Spec:     authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
	})
	if err != nil {
		return false
	}
	user := identity(req.Header)
	key := fmt.Sprintf("%s %s %s", req.URL.Host, user, body)
	now := time.Now()
	a.mu.Lock()
	remembered := now.Before(a.allowed[key])
	a.mu.Unlock()
	if remembered {
		return true
	}
	if ok, err := a.review(req, body); err != nil || !ok {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.allowed) >= maxAllowed {
		clear(a.allowed)
	}
	a.allowed[key] = now.Add(allowedFor)
	return true
}

// review asks the apiserver under the identity of req.
func (a *access) review(req *http.Request, body []byte) (bool, error) {
	ctx, cancel := context.WithTimeout(req.Context(), a.patience)
	defer cancel()
	address := *req.URL
	address.Path, address.RawPath, address.RawQuery = a.prefix+reviewsPath, "", ""
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	for name, values := range req.Header {
		if isIdentity(name) || name == "User-Agent" {
			asked.Header[name] = values
		}
	}
	asked.Header.Set("Content-Type", runtime.ContentTypeJSON)
	asked.Header.Set("Accept", runtime.ContentTypeJSON)
	answer, err := a.next.RoundTrip(asked)
	if err != nil {
		return false, err
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxReview))
	if err != nil || answer.StatusCode != http.StatusCreated {
		return false, err
	}
	var review authorizationv1.SelfSubjectAccessReview
	if err := json.Unmarshal(data, &review); err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// isIdentity reports whether a header identifies the user. A client certificate belongs to the
// transport itself.
func isIdentity(name string) bool {
	return name == "Authorization" || strings.HasPrefix(name, "Impersonate-")
}

// identity returns what the headers say about the user, to tell users apart.
func identity(header http.Header) string {
	var said []string
	for name, values := range header {
		if isIdentity(name) {
			said = append(said, fmt.Sprintf("%s=%q", name, values))
		}
	}
	slices.Sort(said)
	return strings.Join(said, ";")
}
