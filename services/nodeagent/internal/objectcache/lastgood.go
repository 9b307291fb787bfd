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
	// patience bounds a read when there is an older answer for the pod, and longest when there is
	// none.
	patience = 5 * time.Second
	longest  = 30 * time.Second
	// awayFor is how long, after the apiserver did not answer, objects with an older answer are not
	// requested again. It bounds the total wait of a pod with many references.
	awayFor = 10 * time.Second
)

// Away reports whether err means that the apiserver did not answer: it could not be reached, timed
// out, failed or was overloaded. That an object does not exist (404), or may not be read (403), is
// an answer.
func Away(err error) bool {
	if err == nil {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	// An error that is not an apiserver's Status comes from a gateway in front of it.
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || apierrors.IsUnexpectedServerError(err)
}

type podKey struct{}

// For returns a context for reads on behalf of pod: their answers are kept until Drop is called
// with its UID.
func For(ctx context.Context, pod *corev1.Pod) context.Context {
	return context.WithValue(ctx, podKey{}, string(pod.UID))
}

// podOf returns the UID of the pod on whose behalf a read is made; empty if there is none.
func podOf(ctx context.Context) string {
	uid, _ := ctx.Value(podKey{}).(string)
	return uid
}

// Drop forgets the answers kept for the pod with this UID.
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

// kept holds the last answers, each with the pods it was read for. A pod gets only these: a pod
// created while the apiserver is unavailable does not get what was read before its creation.
type kept struct {
	last map[key]*last
	// away reports that the apiserver did not answer the last read. Until awayUntil, objects with a
	// kept answer are not requested.
	away      bool
	awayUntil time.Time
}

type last struct {
	answer
	pods map[string]struct{}
}

// keep keeps an answer for a pod. Pods share the newest: an answer whose read began before the kept
// one's only adds the pod.
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

// of returns the last answer for a pod.
func (k *kept) of(what key, pod string) (answer, bool) {
	l := k.last[what]
	if l == nil {
		return answer{}, false
	}
	_, held := l.pods[pod]
	return l.answer, held
}

// gone records that the apiserver did not answer.
func (k *kept) gone(logger *slog.Logger, now time.Time, err error) {
	if !k.away {
		logger.Warn("the apiserver does not answer; pods keep using the last objects read", "err", err)
	}
	k.away = true
	// The failure of one object says nothing about the others.
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) {
		k.awayUntil = now.Add(awayFor)
	}
}

// back records that the apiserver answered.
func (k *kept) back(logger *slog.Logger) {
	if k.away {
		logger.Info("the apiserver answers again; pods get fresh objects")
	}
	k.away, k.awayUntil = false, time.Time{}
}
