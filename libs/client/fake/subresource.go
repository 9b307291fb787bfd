package fake

import (
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

func (c *Client) createSubresource(call client.Call) (runtime.Object, error) {
	current, err := c.find(call.Kind, call.Namespace, call.Name)
	if err != nil {
		return nil, err
	}
	switch sent := call.Body.(type) {
	case *corev1.Binding:
		if pod, ok := current.(*corev1.Pod); ok && call.Subresource == "binding" {
			return c.bind(call.Kind, pod, sent)
		}
	case *authenticationv1.TokenRequest:
		if call.Kind.HasSubresource("token") && call.Subresource == "token" {
			return c.token(current, sent), nil
		}
	}
	return nil, apierrors.NewMethodNotSupported(call.Kind.GroupResource(), "create of "+call.Subresource)
}

// answerReview answers the creation of an object that is never stored.
func (c *Client) answerReview(call client.Call) (runtime.Object, error) {
	if call.Verb != "create" || c.review == nil {
		return nil, apierrors.NewMethodNotSupported(call.Kind.GroupResource(), call.Verb)
	}
	question, err := body(call)
	if err != nil {
		return nil, err
	}
	if err := c.review(question); err != nil {
		return nil, err
	}
	return question, nil
}

// bind sets a pod's node once (Kubernetes, pkg/registry/core/pod/storage, assignPod).
func (c *Client) bind(kind *scheme.Kind, current *corev1.Pod, binding *corev1.Binding) (runtime.Object, error) {
	if uid := binding.UID; uid != "" && uid != current.UID {
		return nil, conflict(kind, current, uidMessage(uid, current.UID))
	}
	switch {
	case binding.Target.Name == "":
		return nil, apierrors.NewBadRequest("target.name: Required value")
	case current.DeletionTimestamp != nil:
		return nil, conflict(kind, current, fmt.Sprintf("pod %s is being deleted, cannot be assigned to a host", current.Name))
	case current.Spec.NodeName != "":
		return nil, conflict(kind, current, fmt.Sprintf("pod %s is already assigned to node %q", current.Name, current.Spec.NodeName))
	}
	next := current.DeepCopy()
	next.Spec.NodeName = binding.Target.Name
	for key, value := range binding.Annotations {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, key, value)
	}
	now := metav1.Now()
	scheduled := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now.Rfc3339Copy(),
	}
	replaced := false
	for i := range next.Status.Conditions {
		if next.Status.Conditions[i].Type == corev1.PodScheduled {
			next.Status.Conditions[i], replaced = scheduled, true
		}
	}
	if !replaced {
		next.Status.Conditions = append(next.Status.Conditions, scheduled)
	}
	c.commit(kind, next)
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

// token returns a service account's token, which no apiserver would accept.
func (c *Client) token(account scheme.Object, request *authenticationv1.TokenRequest) runtime.Object {
	answer := request.DeepCopy()
	seconds := int64(3600)
	if answer.Spec.ExpirationSeconds != nil {
		seconds = *answer.Spec.ExpirationSeconds
	}
	answer.Spec.ExpirationSeconds = &seconds
	now := time.Now()
	answer.Status = authenticationv1.TokenRequestStatus{
		Token:               fmt.Sprintf("fake:%s:%s:%d", account.GetNamespace(), account.GetName(), now.UnixNano()),
		ExpirationTimestamp: metav1.NewTime(now.Add(time.Duration(seconds) * time.Second)),
	}
	return answer
}

func decodeScale(data []byte) (*autoscalingv1.Scale, error) {
	scale := &autoscalingv1.Scale{}
	if err := json.Unmarshal(data, scale); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("patching a scale: %v", err))
	}
	return scale, nil
}
