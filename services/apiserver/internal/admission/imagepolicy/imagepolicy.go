// Package imagepolicy is the plugin ImagePolicyWebhook.
package imagepolicy

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook"
)

const (
	// about is in the keys of a pod's annotations that the webhook sees.
	about = ".image-policy.k8s.io/"
	// auditPrefix begins the keys of audit annotations.
	auditPrefix = "imagepolicywebhook" + about
	// patience bounds one call of the webhook.
	patience = 30 * time.Second
	// mostCalls is how often a failing webhook is called for one question.
	mostCalls = 5
	// mostAnswers is how many answers are kept; none has more than largestAnswer bytes of text.
	mostAnswers   = 1024
	largestAnswer = 64 << 10
)

// asking asks the webhook once, and sets the review's status.
type asking func(ctx context.Context, review *imagepolicyv1alpha1.ImageReview) error

// plugin has the answers of late.
type plugin struct {
	settings settings
	ask      asking
	answers  *cache.LRUExpireCache
	log      *slog.Logger
}

// Plugin returns the plugin. It asks a webhook whether the images of a new or changed pod may run. The
// document names the webhook, below imagePolicy; it is required. log receives failed calls; slog.Default
// if nil. Close of the plugin ends its connections.
func Plugin(document []byte, log *slog.Logger) (admission.Plugin, error) {
	found, err := read(document)
	if err != nil {
		return admission.Plugin{}, err
	}
	documents := runtime.NewScheme()
	if err := imagepolicyv1alpha1.AddToScheme(documents); err != nil {
		return admission.Plugin{}, fmt.Errorf("registering the types of image reviews: %w", err)
	}
	client, err := webhook.FromKubeconfig(found.kubeConfig, webhook.Config{
		Documents: documents, Versions: schema.GroupVersions{imagepolicyv1alpha1.SchemeGroupVersion}, UserAgent: "kube-apiserver-admission",
	})
	if err != nil {
		return admission.Plugin{}, err //nolint:wrapcheck // It names the file.
	}
	p := newPlugin(found, log, func(ctx context.Context, review *imagepolicyv1alpha1.ImageReview) error {
		answer := &imagepolicyv1alpha1.ImageReview{}
		err := client.Call(ctx, review, answer)
		review.Status = answer.Status
		return err
	})
	return admission.Plugin{Validate: p.validate, Close: client.Close}, nil
}

func newPlugin(settings settings, log *slog.Logger, ask asking) *plugin {
	if log == nil {
		log = slog.Default()
	}
	return &plugin{settings: settings, ask: ask, answers: cache.NewLRUExpireCache(mostAnswers), log: log}
}

// validate refuses a pod whose images the webhook refuses.
func (p *plugin) validate(ctx context.Context, req *admission.Request) error {
	ephemeral := req.Subresource == "ephemeralcontainers"
	if req.Verb == admission.Delete || req.Kind.GroupResource() != corev1.Resource("pods") || req.Subresource != "" && !ephemeral {
		return nil
	}
	pod, ok := req.Object.(*corev1.Pod)
	if !ok {
		return apierrors.NewBadRequest("Resource was marked with kind Pod but was unable to be converted")
	}
	review := &imagepolicyv1alpha1.ImageReview{Spec: imagepolicyv1alpha1.ImageReviewSpec{
		Containers: containersOf(pod, ephemeral), Annotations: annotationsOf(pod), Namespace: req.Namespace,
	}}
	known, err := p.status(ctx, &review.Spec)
	if err != nil {
		if !p.settings.open {
			p.log.Warn("asking the webhook about images failed, and the request with it", "namespace", req.Namespace, "name", req.Name, "err", err)
			return admission.Forbidden(req, err)
		}
		p.log.Warn("asking the webhook about images failed; the pod is admitted without it", "namespace", req.Namespace, "name", req.Name, "err", err)
		open(ctx, req, pod)
		return nil
	}
	for key, value := range known.AuditAnnotations {
		key = auditPrefix + key
		if msgs := validation.IsQualifiedName(key); len(msgs) > 0 {
			p.log.Warn("an audit annotation of the webhook for images has no valid key", "key", key)
			continue
		}
		audit.From(ctx).Annotate(key, value)
	}
	switch {
	case known.Allowed:
		return nil
	case known.Reason != "":
		return admission.Forbidden(req, fmt.Errorf("image policy webhook backend denied one or more images: %s", known.Reason))
	}
	return admission.Forbidden(req, errors.New("one or more images rejected by webhook backend"))
}

// open records that a pod is admitted although the webhook failed. As in Kubernetes, validating plugins
// after this one see a pod that says so, and etcd does not have it.
func open(ctx context.Context, req *admission.Request, pod *corev1.Pod) {
	audit.From(ctx).Annotate(auditPrefix+"failed-open", "true")
	seen := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&seen.ObjectMeta, corev1.ImagePolicyFailedOpenKey, "true")
	req.Object = seen
}

// containersOf returns the images to ask about, in Kubernetes' order.
func containersOf(pod *corev1.Pod, ephemeral bool) []imagepolicyv1alpha1.ImageReviewContainerSpec {
	var containers []imagepolicyv1alpha1.ImageReviewContainerSpec
	add := func(image string) {
		containers = append(containers, imagepolicyv1alpha1.ImageReviewContainerSpec{Image: image})
	}
	if ephemeral {
		for i := range pod.Spec.EphemeralContainers {
			add(pod.Spec.EphemeralContainers[i].Image)
		}
		return containers
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].Image)
	}
	for i := range pod.Spec.InitContainers {
		add(pod.Spec.InitContainers[i].Image)
	}
	return containers
}

// annotationsOf returns the pod's annotations for the webhook.
func annotationsOf(pod *corev1.Pod) map[string]string {
	annotations := map[string]string{}
	for key, value := range pod.Annotations {
		if strings.Contains(key, about) {
			annotations[key] = value
		}
	}
	return annotations
}

// status returns the webhook's answer, which may be one of late to the same question. It asks again, a
// few times, if the failure may pass.
func (p *plugin) status(ctx context.Context, spec *imagepolicyv1alpha1.ImageReviewSpec) (imagepolicyv1alpha1.ImageReviewStatus, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return imagepolicyv1alpha1.ImageReviewStatus{}, fmt.Errorf("encoding an image review: %w", err)
	}
	question := sha256.Sum256(text) // Bounds the keys, which users choose.
	if found, ok := p.answers.Get(question); ok {
		if known, ok := found.(imagepolicyv1alpha1.ImageReviewStatus); ok {
			return known, nil
		}
	}
	review := &imagepolicyv1alpha1.ImageReview{Spec: *spec}
	if err := p.askAgain(ctx, review); err != nil {
		return imagepolicyv1alpha1.ImageReviewStatus{}, err
	}
	keep := p.settings.deny
	if review.Status.Allowed {
		keep = p.settings.allow
	}
	if keep > 0 && size(&review.Status) <= largestAnswer {
		p.answers.Add(question, review.Status, keep)
	}
	return review.Status, nil
}

// askAgain asks the webhook, and again while that fails in a way that may pass, as Kubernetes does. The
// error is the one of the last call.
func (p *plugin) askAgain(ctx context.Context, review *imagepolicyv1alpha1.ImageReview) error {
	var last error
	pauses := wait.Backoff{Duration: p.settings.backoff, Factor: 1.5, Jitter: 0.2, Steps: mostCalls}
	err := wait.ExponentialBackoffWithContext(ctx, pauses, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		last = p.ask(ctx, review)
		if passes(last) {
			return false, nil
		}
		return true, last
	})
	switch {
	case last != nil:
		return last
	case err != nil:
		return fmt.Errorf("webhook call failed: %w", err)
	}
	return nil
}

// passes reports whether a call that failed so may succeed a little later.
func passes(err error) bool {
	_, advised := apierrors.SuggestsClientDelay(err)
	return advised || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err)
}

// size returns the bytes of text in an answer.
func size(status *imagepolicyv1alpha1.ImageReviewStatus) int {
	n := len(status.Reason)
	for key, value := range status.AuditAnnotations {
		n += len(key) + len(value)
	}
	return n
}
