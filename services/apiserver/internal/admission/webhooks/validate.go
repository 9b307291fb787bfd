package webhooks

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
)

// atOnce is how many validating webhooks are asked at the same time about one request.
const atOnce = 32

// validate asks all webhooks that match, and returns the first refusal in their order.
func (p *plugin) validate(ctx context.Context, req *admission.Request, hooks []*hook) error {
	r := newRequest(ctx, req)
	versions := map[schema.GroupVersionKind]*shown{}
	show := func(kind schema.GroupVersionKind) (*shown, error) {
		if s := versions[kind]; s != nil {
			return s, nil
		}
		s, err := p.show(r, req.Object, req.Old, kind)
		versions[kind] = s
		return s, err
	}
	var calls []*pending
	for _, h := range hooks {
		call, err := p.match(ctx, r, h, req.Object, show)
		if err != nil {
			return err
		}
		if call == nil {
			continue
		}
		objects, err := show(call.kind)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		// Encoded here once, for all goroutines that send it.
		if _, _, err := objects.encoded(); err != nil {
			return apierrors.NewInternalError(err)
		}
		calls = append(calls, &pending{invocation: call, objects: objects, index: len(calls)})
	}
	if len(calls) == 0 {
		return nil
	}
	if err := timedOut(ctx); err != nil {
		return err
	}
	p.callAll(ctx, r, calls)
	for _, v := range calls {
		admission.Warn(ctx, v.warnings...)
	}
	for _, v := range calls {
		if v.err != nil {
			return v.err
		}
	}
	return nil
}

// pending is one call of a validating webhook. One goroutine works on it.
type pending struct {
	*invocation
	objects  *shown
	index    int
	warnings []string
	err      error
}

// callAll asks the webhooks, some at the same time, and returns when all have answered or failed.
func (p *plugin) callAll(ctx context.Context, r *request, calls []*pending) {
	if len(calls) == 1 {
		p.callOne(ctx, r, calls[0])
		return
	}
	slots := make(chan struct{}, atOnce)
	var wait sync.WaitGroup
	for _, v := range calls {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			p.callOne(ctx, r, v)
		})
	}
	wait.Wait()
}

func (p *plugin) callOne(ctx context.Context, r *request, v *pending) {
	defer func() {
		// Elsewhere a panic would end the whole process, and not only the request.
		if problem := recover(); problem != nil {
			p.log.Error("a panic while a webhook was called", "configuration", v.configuration, "webhook", v.name, "err", problem)
			v.err = nil
			if !v.ignored {
				v.err = internal("ValidatingAdmissionWebhook/%v has panicked: %v", v.name, problem)
			}
		}
	}()
	began := time.Now()
	answer, err := p.ask(ctx, r, v.invocation, v.objects)
	if err == nil {
		p.note(ctx, v.invocation, answer, func(text string) { v.warnings = append(v.warnings, text) })
		if !answer.allowed {
			err = &refusal{webhookerrors.ToStatusErr(v.name, answer.result)}
		}
	}
	opened, err := p.settle(ctx, r, v.invocation, began, err)
	if opened {
		audit.From(ctx).Annotate(fmt.Sprintf("failed-open.validating.webhook.admission.k8s.io/round_0_index_%d", v.index), v.name)
		err = nil // Kubernetes asks nobody else then, so it does not matter whether time is left.
	}
	v.err = err
}
