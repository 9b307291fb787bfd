package objectcache

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// patience is how long a read may take when there is an older answer for the pod, and longest how
	// long when there is none.
	patience = 5 * time.Second
	longest  = 30 * time.Second
	// awayFor is how long the apiserver is not asked again for what there is an older answer for, after
	// it did not answer. It bounds what a pod with many references waits for in all.
	awayFor = 10 * time.Second
)

// Away reports whether err says that the apiserver did not answer: that it could not be reached, took
// too long, failed or was overloaded. That there is no such object (404), or that it may not be read
// (403), is an answer.
func Away(err error) bool {
	if err == nil {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	// What is no Status of an apiserver's comes from a gateway before it.
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || apierrors.IsUnexpectedServerError(err)
}

type podKey struct{}

// For returns a context whose reads are for pod: their answers are kept until Drop is called with its
// UID.
func For(ctx context.Context, pod *corev1.Pod) context.Context {
	return context.WithValue(ctx, podKey{}, string(pod.UID))
}

// podOf returns the UID of the pod that a read is for; empty if there is none.
func podOf(ctx context.Context) string {
	uid, _ := ctx.Value(podKey{}).(string)
	return uid
}

// Drop forgets what was kept for the pod with this UID.
func (r *Reader) Drop(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for what, l := range r.kept.last {
		delete(l.pods, uid)
		if len(l.pods) == 0 {
			delete(r.kept.last, what)
		}
	}
}

// kept are the last answers, each for the pods that have it. A pod has only what was read for it: a
// pod that is new while the apiserver is away does not get what was read before it was created.
type kept struct {
	last map[key]*last
	// away says that the apiserver did not answer the last read; it is not asked before awayUntil for
	// what is kept.
	away      bool
	awayUntil time.Time
}

type last struct {
	answer
	pods map[string]struct{}
}

// keep keeps an answer for a pod. Pods share the newest: an answer to a read that began before that of
// another only adds the pod.
func (k *kept) keep(what key, a answer, pod string) {
	if pod == "" {
		return
	}
	l := k.last[what]
	if l == nil {
		l = &last{answer: a, pods: map[string]struct{}{}}
		k.last[what] = l
	}
	if a.began.After(l.began) {
		l.answer = a
	}
	l.pods[pod] = struct{}{}
}

// of returns what was last read for a pod.
func (k *kept) of(what key, pod string) (answer, bool) {
	l := k.last[what]
	if l == nil {
		return answer{}, false
	}
	_, held := l.pods[pod]
	return l.answer, held
}

// gone notes that the apiserver did not answer.
func (k *kept) gone(logger *slog.Logger, now time.Time, err error) {
	if !k.away {
		logger.Warn("the apiserver does not answer; pods go on with the references that were last read", "err", err)
	}
	k.away = true
	// A failure of one object says nothing of the others.
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) {
		k.awayUntil = now.Add(awayFor)
	}
}

// back notes that the apiserver answered.
func (k *kept) back(logger *slog.Logger) {
	if k.away {
		logger.Info("the apiserver answers again; pods get new references")
	}
	k.away, k.awayUntil = false, time.Time{}
}
