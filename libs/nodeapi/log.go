package nodeapi

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LogQuery returns the query that asks for a log with options, but for the container, which the path names.
func LogQuery(opts *corev1.PodLogOptions) url.Values {
	query := url.Values{}
	boolean := func(name string, value bool) {
		if value {
			query.Set(name, "true")
		}
	}
	number := func(name string, value *int64) {
		if value != nil {
			query.Set(name, strconv.FormatInt(*value, 10))
		}
	}
	boolean("follow", opts.Follow)
	boolean("previous", opts.Previous)
	boolean("timestamps", opts.Timestamps)
	number("tailLines", opts.TailLines)
	number("sinceSeconds", opts.SinceSeconds)
	number("limitBytes", opts.LimitBytes)
	if opts.SinceTime != nil {
		query.Set("sinceTime", opts.SinceTime.UTC().Format(time.RFC3339))
	}
	if opts.Stream != nil {
		query.Set("stream", *opts.Stream)
	}
	return query
}

// LogOptions reads a query of LogQuery. What is unknown has no effect.
func LogOptions(query url.Values) (*corev1.PodLogOptions, error) {
	opts := &corev1.PodLogOptions{}
	for name, into := range map[string]*bool{"follow": &opts.Follow, "previous": &opts.Previous, "timestamps": &opts.Timestamps} {
		value := query.Get(name)
		if value == "" {
			continue
		}
		parsed, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %q must be true or false", name, value)
		}
		*into = parsed
	}
	for name, into := range map[string]**int64{
		"tailLines": &opts.TailLines, "sinceSeconds": &opts.SinceSeconds, "limitBytes": &opts.LimitBytes,
	} {
		value := query.Get(name)
		if value == "" {
			continue
		}
		parsed, err := strconv.ParseInt(value, 10, 64)
		if err != nil || parsed < 0 {
			return nil, fmt.Errorf("reading %s: %q must be a number of at least 0", name, value)
		}
		*into = &parsed
	}
	if value := query.Get("sinceTime"); value != "" {
		parsed, err := time.Parse(time.RFC3339, value)
		if err != nil {
			return nil, fmt.Errorf("reading sinceTime: %w", err)
		}
		since := metav1.NewTime(parsed)
		opts.SinceTime = &since
	}
	if value := query.Get("stream"); value != "" {
		opts.Stream = &value
	}
	return opts, nil
}
