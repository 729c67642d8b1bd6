# Commands for a fresh machine; developers use the presets of CMakePresets.json directly.
.PHONY: build check demo train bench packages help
.DEFAULT_GOAL := build

# Kernels for one GPU are enough to work and to check with; packages have all (cmake/cuda.cmake).
CONFIGURE = cmake --preset release -DAMP_CUDA_ARCHITECTURES=native
OCR = .deps/models/ppocr
BUILD = cmake --build --preset release --parallel $$(nproc)

# Installs nothing: what is missing, CMake names.
build:
	$(CONFIGURE) -DBUILD_TESTING=OFF -DAMP_BENCH=OFF
	$(BUILD)

check:
	scripts/setup check
	$(CONFIGURE) -DBUILD_TESTING=ON -DAMP_BENCH=ON
	$(BUILD)
	ctest --preset release --parallel $$(nproc); status=$$?; scripts/skipped build/release; exit $$status

demo:
	scripts/setup demo
	$(CONFIGURE) -DBUILD_TESTING=OFF
	$(BUILD) --target sentence_embedding ocr amp_tool
	build/release/examples/sentence_embedding </dev/null
	@if [ -e $(OCR)/complete ]; then echo build/release/examples/ocr; build/release/examples/ocr; \
	else echo; echo "The OCR, from ONNX files, is skipped: $$(cat $(OCR)/missing)."; fi

train:
	scripts/setup train
	$(CONFIGURE) -DBUILD_TESTING=OFF
	$(BUILD) --target train_digits
	build/release/examples/train_digits

# A page of figures in build/report, oneDNN's beside ours. PEERS=mkl installs MKL and adds its; PEERS=VENV, a Python
# environment with mkl, onnxruntime, openvino or torch, adds those. OPTIONS=… goes to bench/report.py.
bench:
	scripts/setup $(if $(filter mkl,$(PEERS)),bench,demo)
	$(CONFIGURE) -DAMP_BENCH=ON
	$(BUILD)
	bench/report.py $(if $(PEERS),--peers $(patsubst mkl,.deps/mkl,$(PEERS))) $(OPTIONS)

# Debian packages, and an archive that runs from any folder, in build/packages. For all GPUs, where the CUDA toolkit is installed.
packages:
	scripts/setup packages
	cmake --preset release -B build/packages -DBUILD_TESTING=OFF -DAMP_BENCH=OFF
	cmake --build build/packages --parallel $$(nproc)
	cd build/packages && cpack
	@ls -l build/packages/packages/*.deb build/packages/packages/*.tar.gz

help:
	@echo 'make         the library, the tool and the examples, in build/release'
	@echo 'make check   … and everything tested; installs what is missing (scripts/setup)'
	@echo 'make demo    sentence embeddings, and text read from a picture, in f32 and bf16; installs what is missing'
	@echo 'make train   a network that learns handwritten digits, in f32, bf16 and f16; installs what is missing'
	@echo 'make bench   a page of figures in build/report (PEERS=mkl or VENV, OPTIONS=…)'
	@echo 'make packages  Debian packages, and an archive that runs from any folder, in build/packages/packages'
	@echo 'To install:  cmake --install build/release --prefix DIRECTORY'
