package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/garboard/garboard/services/apiserver/internal/http/response"
)

// ServeStatus serves GET report.StatusPath.
func (i *Inspector) ServeStatus(encoder *response.Encoder) http.Handler {
	return serve(encoder, func(ctx context.Context) (any, error) { return i.Status(ctx) })
}

// ServeWatchers serves GET report.WatchersPath.
func (i *Inspector) ServeWatchers(encoder *response.Encoder) http.Handler {
	return serve(encoder, func(ctx context.Context) (any, error) { return i.Watchers(ctx) })
}

func serve(encoder *response.Encoder, gather func(context.Context) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, err := gather(r.Context())
		if err != nil {
			encoder.Error(w, r, err)
			return
		}
		data, err := json.Marshal(value)
		if err != nil {
			encoder.Error(w, r, fmt.Errorf("encoding the response: %w", err))
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		encoder.Bytes(w, r, http.StatusOK, "application/json", append(data, '\n'))
	})
}
