package nodeproxy

import (
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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
