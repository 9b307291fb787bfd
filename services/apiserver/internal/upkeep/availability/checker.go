package availability

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
)

const (
	// recheck is how often the servers of an API are asked, and the longest time between two attempts while
	// they don't answer. It is kube-aggregator's.
	recheck = 30 * time.Second
	// firstRetry is the time after the first attempt that failed. It doubles.
	firstRetry = time.Second
	// lookEvery is how often the Service and its endpoints are looked at in the watch cache.
	lookEvery = time.Second
	// describeEvery is how often a server is asked what it serves. It is kube-aggregator's.
	describeEvery = time.Minute
)

// checker checks one APIService.
type checker struct {
	*Keeper
	current atomic.Pointer[apiService]
	changed chan struct{} // has an element when current has another spec
	end     context.CancelFunc
}

// run checks until ctx ends.
func (c *checker) run(ctx context.Context) {
	defer c.metrics.forget(c.current.Load().Name)
	pause, described, of := firstRetry, time.Time{}, &apiService{}
	for {
		object := c.current.Load()
		condition, seen := c.look(ctx, object)
		asked := condition.Status == apiregistrationv1.ConditionTrue
		if asked {
			if err := c.cfg.APIs.Check(ctx, object.Name); err != nil {
				condition = not(apiregistrationv1.ConditionFalse, "FailedDiscoveryCheck", err.Error())
			}
		}
		if ctx.Err() != nil {
			return
		}
		available := condition.Status == apiregistrationv1.ConditionTrue
		c.metrics.set(object.Name, available)
		if err := c.write(ctx, object, condition); err != nil && ctx.Err() == nil {
			c.cfg.Logger.WarnContext(ctx, "cannot write the status of an APIService", "name", object.Name, "err", err)
		}
		if !same(of, object) || time.Since(described) >= describeEvery {
			if err := c.cfg.APIs.Describe(ctx, object.Name); err == nil {
				described, of = time.Now(), object
			} else if ctx.Err() == nil && available {
				c.cfg.Logger.InfoContext(ctx, "an aggregated API does not say what it serves; trying again", "name", object.Name, "err", err)
			}
		}
		wait := recheck
		switch {
		case available && same(of, object):
			pause = firstRetry
		case asked: // Otherwise a change of what was seen ends the wait.
			wait, pause = pause, min(2*pause, recheck)
		}
		if !c.wait(ctx, wait, seen) {
			return
		}
	}
}

// wait returns true after a time, or before it when the APIService, its Service or the endpoints of that are
// no longer what was seen; false when ctx has ended.
func (c *checker) wait(ctx context.Context, atMost time.Duration, seen string) bool {
	over := time.NewTimer(atMost)
	defer over.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-over.C:
			return true
		case <-c.changed:
			return true
		case <-look.C:
			if _, now := c.look(ctx, c.current.Load()); now != seen {
				return true
			}
		}
	}
}

func not(status apiregistrationv1.ConditionStatus, reason, message string) apiregistrationv1.APIServiceCondition {
	return apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: status, LastTransitionTime: metav1.Now(), Reason: reason, Message: message,
	}
}

// look returns whether an API can be available, by the watch cache alone, and what it saw. The reasons and
// messages are kube-aggregator's.
func (c *checker) look(ctx context.Context, object *apiService) (apiregistrationv1.APIServiceCondition, string) {
	of := object.Spec.Service
	passed := not(apiregistrationv1.ConditionTrue, "Passed", "all checks passed")
	say := func(status apiregistrationv1.ConditionStatus, reason, format string, args ...any) (apiregistrationv1.APIServiceCondition, string) {
		message := fmt.Sprintf(format, args...)
		return not(status, reason, message), reason + message
	}
	service, err := c.cfg.Service(ctx, of.Namespace, of.Name)
	switch {
	case apierrors.IsNotFound(err):
		return say(apiregistrationv1.ConditionFalse, "ServiceNotFound", "service/%s in %q is not present", of.Name, of.Namespace)
	case err != nil:
		return say(apiregistrationv1.ConditionUnknown, "ServiceAccessError", "service/%s in %q cannot be checked due to: %v", of.Name, of.Namespace, err)
	case service.Spec.Type != corev1.ServiceTypeClusterIP:
		return passed, string(service.UID) + service.Spec.ExternalName
	}
	port := int32(443)
	if of.Port != nil {
		port = *of.Port
	}
	at := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if at < 0 {
		return say(apiregistrationv1.ConditionFalse, "ServicePortError", "service/%s in %q is not listening on port %d", of.Name, of.Namespace, port)
	}
	all, err := c.cfg.Slices(ctx, of.Namespace)
	if err != nil {
		return say(apiregistrationv1.ConditionUnknown, "EndpointsAccessError", "service/%s in %q cannot be checked due to: %v", of.Name, of.Namespace, err)
	}
	ready := endpoints.Ready(all, of.Name, service.Spec.Ports[at].Name)
	switch {
	case !slices.ContainsFunc(all, func(s *discoveryv1.EndpointSlice) bool { return s.Labels[discoveryv1.LabelServiceName] == of.Name }):
		return say(apiregistrationv1.ConditionFalse, "EndpointsNotFound", "cannot find endpointslices for service/%s in %q", of.Name, of.Namespace)
	case len(ready) == 0:
		return say(apiregistrationv1.ConditionFalse, "MissingEndpoints", "endpointslices for service/%s in %q have no addresses with port name %q",
			of.Name, of.Namespace, service.Spec.Ports[at].Name)
	}
	return passed, string(service.UID) + strings.Join(ready, ",")
}
