// Package nodeproxy carries what only a node can provide — a container's log — from the node agent
// to the client, over the bus: the node needs one outbound connection and no open port.
package nodeproxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/nodeapi"
)

// Opener opens a streamed response at a subject of the bus: a bytestream.Transport.
type Opener interface {
	Open(ctx context.Context, subject string, request []byte) (io.ReadCloser, error)
}

// ParseLogOptions parses the query of a log request as Kubernetes does. Its error is Invalid and
// names the field.
func ParseLogOptions(pod string, query url.Values) (*corev1.PodLogOptions, error) {
	opts := &corev1.PodLogOptions{Container: query.Get("container")}
	var errs field.ErrorList
	boolean := func(name string, into *bool) {
		if value := query.Get(name); value != "" {
			parsed, err := strconv.ParseBool(value)
			if err != nil {
				errs = append(errs, field.Invalid(field.NewPath(name), value, "must be true or false"))
			}
			*into = parsed
		}
	}
	number := func(name string, least int64, into **int64) {
		value := query.Get(name)
		if value == "" {
			return
		}
		parsed, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(field.NewPath(name), value, "must be an integer"))
		case parsed < least && least == 0:
			errs = append(errs, field.Invalid(field.NewPath(name), parsed, "must be greater than or equal to 0"))
		case parsed < least:
			errs = append(errs, field.Invalid(field.NewPath(name), parsed, "must be greater than 0"))
		}
		*into = &parsed
	}
	boolean("follow", &opts.Follow)
	boolean("previous", &opts.Previous)
	boolean("timestamps", &opts.Timestamps)
	boolean("insecureSkipTLSVerifyBackend", &opts.InsecureSkipTLSVerifyBackend)
	number("tailLines", 0, &opts.TailLines)
	number("sinceSeconds", 1, &opts.SinceSeconds)
	number("limitBytes", 1, &opts.LimitBytes)
	if value := query.Get("sinceTime"); value != "" {
		parsed, err := time.Parse(time.RFC3339, value)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath("sinceTime"), value, "must be an RFC 3339 time"))
		}
		since := metav1.NewTime(parsed)
		opts.SinceTime = &since
		if opts.SinceSeconds != nil {
			errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
		}
	}
	if value := query.Get("stream"); value != "" {
		opts.Stream = &value
		if value != corev1.LogStreamAll {
			errs = append(errs, field.NotSupported(field.NewPath("stream"), value, []string{corev1.LogStreamAll}))
		}
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("PodLogOptions").GroupKind(), pod, errs)
	}
	return opts, nil
}

// OpenLog opens the log of a pod's container. It sends the request to the pod's node by name; a pod
// without a node has an empty log.
func OpenLog(ctx context.Context, opener Opener, pod *corev1.Pod, opts *corev1.PodLogOptions) (io.ReadCloser, error) {
	container, err := chooseContainer(pod, opts.Container)
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName == "" {
		return io.NopCloser(strings.NewReader("")), nil
	}
	request, err := json.Marshal(nodeapi.LogRequest{
		Namespace: pod.Namespace, Pod: pod.Name, UID: string(pod.UID), Container: container,
		Previous: opts.Previous, Follow: opts.Follow, Timestamps: opts.Timestamps, TailLines: opts.TailLines,
		SinceSeconds: opts.SinceSeconds, SinceTime: opts.SinceTime, LimitBytes: opts.LimitBytes, Stream: opts.Stream,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding a request for a log: %w", err)
	}
	stream, err := opener.Open(ctx, subject.Node(pod.Spec.NodeName, nodeapi.Logs), request)
	if err != nil {
		return nil, unreachable(pod.Spec.NodeName, err)
	}
	reader := bufio.NewReader(stream)
	header, err := nodeapi.ReadLogHeader(reader)
	if err == nil && header.Status == nil {
		return log{reader, stream}, nil
	}
	_ = stream.Close()
	if err != nil {
		return nil, unreachable(pod.Spec.NodeName, err)
	}
	return nil, &apierrors.StatusError{ErrStatus: *header.Status}
}

// log reads what follows the header.
type log struct {
	io.Reader
	io.Closer
}

// unreachable returns the error for a node that does not answer as it should.
func unreachable(node string, err error) error {
	message := fmt.Sprintf("the log cannot be read from node %q: %v", node, err)
	code := int32(http.StatusBadGateway)
	if errors.Is(err, bus.ErrNoResponders) {
		message = fmt.Sprintf("node %q does not answer: its node agent is not connected", node)
		code = http.StatusServiceUnavailable
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReasonServiceUnavailable, Message: message,
	}}
}

// chooseContainer returns the requested container. Its errors are Kubernetes'.
func chooseContainer(pod *corev1.Pod, name string) (string, error) {
	var regular, initial []string
	for _, container := range pod.Spec.Containers {
		regular = append(regular, container.Name)
	}
	for _, container := range pod.Spec.InitContainers {
		initial = append(initial, container.Name)
	}
	if name == "" {
		if len(regular) == 1 {
			return regular[0], nil
		}
		message := fmt.Sprintf("a container name must be specified for pod %s, choose one of: [%s]", pod.Name, strings.Join(regular, " "))
		if len(initial) > 0 {
			message += fmt.Sprintf(" or one of the init containers: [%s]", strings.Join(initial, " "))
		}
		return "", apierrors.NewBadRequest(message)
	}
	if slices.Contains(regular, name) || slices.Contains(initial, name) {
		return name, nil
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
}
