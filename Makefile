# Commands for a fresh machine; developers use the presets of CMakePresets.json directly.
.PHONY: demo check bench

demo:
	scripts/setup demo
	cmake --preset release -DBUILD_TESTING=OFF
	cmake --build --preset release --parallel $$(nproc) --target sentence_embedding amp_tool
	build/release/examples/sentence_embedding </dev/null

check:
	scripts/setup check
	cmake --preset release -DBUILD_TESTING=ON
	cmake --build --preset release --parallel $$(nproc)
	ctest --preset release --parallel $$(nproc)

# A page of figures in build/report. PEERS=VENV, a Python environment with mkl, onnxruntime, openvino or torch, adds them;
# OPTIONS=… goes to bench/report.py.
bench:
	scripts/setup demo
	cmake --preset release
	cmake --build --preset release --parallel $$(nproc)
	bench/report.py $(if $(PEERS),--peers $(PEERS)) $(OPTIONS)
