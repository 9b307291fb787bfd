package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/garboard/garboard/services/apiserver/internal/http/response"
)

// ServeStatus serves GET report.StatusPath.
func (i *Inspector) ServeStatus(answers *response.Answerer) http.Handler {
	return serve(answers, func(ctx context.Context) (any, error) { return i.Status(ctx) })
}

// ServeWatchers serves GET report.WatchersPath.
func (i *Inspector) ServeWatchers(answers *response.Answerer) http.Handler {
	return serve(answers, func(ctx context.Context) (any, error) { return i.Watchers(ctx) })
}

func serve(answers *response.Answerer, gather func(context.Context) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, err := gather(r.Context())
		if err != nil {
			answers.Error(w, r, err)
			return
		}
		data, err := json.Marshal(value)
		if err != nil {
			answers.Error(w, r, fmt.Errorf("encoding the response: %w", err))
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		answers.Bytes(w, r, http.StatusOK, "application/json", append(data, '\n'))
	})
}
