package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"

	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
)

// Why a request was rejected, as a label of metrics.
const (
	callingError = "calling_webhook_error"
	ownError     = "apiserver_internal_error"
	noError      = "no_error"
)

// callError reports that a webhook could not be asked, or that its answer is none. It is a refusal
// unless the webhook's failures are ignored.
type callError struct {
	webhook string
	reason  error
	code    int // that metrics show
}

// Error returns Kubernetes' text.
func (e *callError) Error() string {
	return fmt.Sprintf("failed calling webhook %q: %v", e.webhook, e.reason)
}

// Unwrap returns the reason.
func (e *callError) Unwrap() error { return e.reason }

// refusal is a webhook's own refusal.
type refusal struct{ status *apierrors.StatusError }

// Error returns the refusal's message.
func (e *refusal) Error() string { return e.status.Error() }

// ask calls a webhook once, and returns its valid answer, whether that admits the request or not.
func (p *plugin) ask(ctx context.Context, r *request, call *invocation, objects *shown) (*verdict, error) {
	failed := func(code int, reason error) error { return &callError{call.name, reason, code} }
	if r.DryRun {
		if call.sideEffects == nil {
			return nil, failed(http.StatusBadRequest, errors.New("Webhook SideEffects is nil")) //nolint:staticcheck // Kubernetes' text.
		}
		if !call.withoutEffects() {
			return nil, webhookerrors.NewDryRunUnsupportedErr(call.name)
		}
	}
	question, err := newReview(r, call, objects)
	if err != nil {
		return nil, failed(http.StatusBadRequest, fmt.Errorf("could not create admission objects: %w", err))
	}
	client, err := p.clients.Client(call.target)
	if err != nil {
		return nil, failed(http.StatusInternalServerError, fmt.Errorf("could not get REST client: %w", err))
	}
	if call.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, call.timeout)
		defer cancel()
	}
	if err := client.Call(ctx, question.question, question.answer); err != nil {
		code := http.StatusServiceUnavailable
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			code = int(status.Status().Code)
		}
		return nil, failed(code, fmt.Errorf("failed to call webhook: %w", err))
	}
	answer, err := question.verdict(p.step.mutates)
	if err != nil {
		return nil, failed(http.StatusServiceUnavailable, fmt.Errorf("received invalid webhook response: %w", err))
	}
	return answer, nil
}

// note passes on what a webhook says beside its decision: to the audit log, and to the client.
func (p *plugin) note(ctx context.Context, call *invocation, answer *verdict, warn func(text string)) {
	for key, value := range answer.annotations {
		key = call.name + "/" + key
		if msgs := validation.IsQualifiedName(key); len(msgs) > 0 {
			p.log.Warn("a webhook's audit annotation has no valid key", "configuration", call.configuration, "webhook", call.name, "key", key)
			continue
		}
		audit.From(ctx).Annotate(key, value)
	}
	for _, text := range answer.warnings {
		warn(text)
	}
}

// settle counts the outcome of a call, and returns the error that ends the request: nil if there is
// none, or if the failure of the webhook is ignored. opened is then true.
func (p *plugin) settle(ctx context.Context, r *request, call *invocation, began time.Time, err error) (opened bool, ends error) {
	elapsed := time.Since(began)
	var failure *callError
	var refused *refusal
	switch {
	case err == nil:
		p.metrics.called(call.name, r.operation, http.StatusOK, false, elapsed)
		return false, nil
	case errors.As(err, &failure):
		p.metrics.called(call.name, r.operation, failure.code, !call.ignored, elapsed)
		return p.failed(ctx, r, call, failure)
	case errors.As(err, &refused):
		code := int(refused.status.ErrStatus.Code)
		p.metrics.rejected(call.name, r.operation, noError, code)
		p.metrics.called(call.name, r.operation, code, true, elapsed)
		p.log.Debug("a webhook refused a request", "configuration", call.configuration, "webhook", call.name, "err", err)
		return false, refused.status
	}
	p.metrics.rejected(call.name, r.operation, ownError, 0)
	p.metrics.called(call.name, r.operation, 0, true, elapsed)
	return false, err
}

// failed is settle for a webhook that could not be asked.
func (p *plugin) failed(ctx context.Context, r *request, call *invocation, failure *callError) (opened bool, ends error) {
	gone := errors.Is(failure.reason, context.Canceled) // The client went away: that is not the webhook's fault.
	log := p.log.With("configuration", call.configuration, "webhook", call.name, "err", failure.reason)
	switch {
	case !call.ignored:
		if !gone {
			p.metrics.rejected(call.name, r.operation, callingError, failure.code)
			log.Warn("calling a webhook failed, and the request with it")
		}
		return false, apierrors.NewInternalError(failure)
	case gone:
		return false, timedOut(ctx)
	}
	p.metrics.failedOpen(call.name)
	log.Warn("calling a webhook failed; the request is admitted without it")
	return true, timedOut(ctx)
}
